//! The Chat Completions API.

use serde_json::{Value, json};

use super::{Reply, Request, result_block, said, text_block, text_of, use_block};

/// A request in our shape.
pub fn request(body: &Value) -> Request {
    let messages = body["messages"].as_array().into_iter().flatten().map(message).collect();
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_string));
    let tools = tools.collect();
    Request::other(body, messages, tools)
}

fn message(message: &Value) -> Value {
    let text = text_of(&message["content"]);
    match message["role"].as_str().unwrap_or_default() {
        "tool" => said("user", &[result_block(&text)]),
        "assistant" => {
            let mut blocks: Vec<Value> =
                (!text.is_empty()).then(|| text_block(&text)).into_iter().collect();
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                let arguments = function["arguments"].as_str().unwrap_or_default();
                let input = serde_json::from_str(arguments).unwrap_or_default();
                blocks.push(use_block(function["name"].as_str().unwrap_or_default(), input));
            }
            said("assistant", &blocks)
        }
        "user" => said("user", &[text_block(&text)]),
        _ => said("system", &[text_block(&text)]),
    }
}

/// What the model says, and the tools that it calls.
fn parts(reply: &Reply, number: usize) -> (Option<String>, Vec<Value>) {
    let texts = reply.blocks.iter().filter_map(|block| block["text"].as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    let uses = reply.blocks.iter().filter(|block| block["type"] == "tool_use");
    let call = |(index, block): (usize, &Value)| {
        json!({
            "index": index, "id": format!("call_{number}_{index}"), "type": "function",
            "function": { "name": block["name"], "arguments": block["input"].to_string() },
        })
    };
    let calls = uses.enumerate().map(call).collect();
    ((!text.is_empty()).then_some(text), calls)
}

fn finish(calls: &[Value]) -> &'static str {
    if calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 })
}

/// A reply as the events of a stream.
pub fn events(reply: &Reply, number: usize) -> String {
    let (text, calls) = parts(reply, number);
    let chunk = |delta: Value, finish: Value, usage: Value| {
        json!({
            "id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk", "created": 1,
            "model": "fake", "usage": usage,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        })
    };
    let mut delta = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        delta["tool_calls"] = calls.clone().into();
    }
    let first = chunk(delta, Value::Null, Value::Null);
    let last = chunk(json!({}), finish(&calls).into(), usage());
    format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n")
}

/// A reply in one piece.
pub fn whole(reply: &Reply, number: usize) -> String {
    let (text, calls) = parts(reply, number);
    let reason = finish(&calls);
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let answer = json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 1,
        "model": "fake", "usage": usage(),
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
    });
    answer.to_string()
}
