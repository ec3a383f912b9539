// Adds `Authorization: Bearer $MCP_BEARER` to every loopback HTTP request of a node program:
//   MCP_BEARER=token node --import ./bearer.mjs program
// Built-in fetch and npm's undici share one global dispatcher; node:http is patched on its own.
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { Agent, setGlobalDispatcher } from 'undici';

const value = `Bearer ${process.env.MCP_BEARER ?? ''}`;
const loopback = new Set(['localhost', '127.0.0.1', '::1', '[::1]']);

function withBearer(headers) {
  if (Array.isArray(headers)) return [...headers, 'authorization', value];
  if (headers && typeof headers[Symbol.iterator] === 'function') {
    return [...[...headers].flat(), 'authorization', value];
  }
  return { ...headers, authorization: value };
}

setGlobalDispatcher(
  new Agent().compose((dispatch) => (options, handler) => {
    const local = loopback.has(new URL(options.origin).hostname);
    return dispatch(local ? { ...options, headers: withBearer(options.headers) } : options, handler);
  }),
);

const { request } = http;
http.request = (...args) => {
  const sent = request(...args);
  if (loopback.has(sent.host) && !sent.headersSent) sent.setHeader('authorization', value);
  return sent;
};
syncBuiltinESMExports();
