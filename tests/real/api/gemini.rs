//! The Gemini API.

use serde_json::{Value, json};

use super::{Reply, Request, result_block, said, text_block, use_block};

/// A request in our shape.
pub fn request(body: &Value) -> Request {
    let messages = body["contents"].as_array().into_iter().flatten().map(message).collect();
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools =
        tools.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    let tools = tools.filter_map(|tool| tool["name"].as_str().map(str::to_string)).collect();
    Request::other(body, messages, tools)
}

fn message(content: &Value) -> Value {
    let parts = content["parts"].as_array().into_iter().flatten();
    let block = |part: &Value| {
        if let Some(call) = part.get("functionCall") {
            let name = call["name"].as_str().unwrap_or_default();
            return use_block(name, call["args"].clone());
        }
        match part.get("functionResponse") {
            Some(result) => result_block(&result["response"].to_string()),
            None => text_block(part["text"].as_str().unwrap_or_default()),
        }
    };
    let role = if content["role"] == "model" { "assistant" } else { "user" };
    said(role, &parts.map(block).collect::<Vec<_>>())
}

fn answer(reply: &Reply) -> Value {
    let part = |block: &Value| match block["text"].as_str() {
        Some(text) => json!({ "text": text }),
        None => json!({ "functionCall": { "name": block["name"], "args": block["input"] } }),
    };
    let parts: Vec<Value> = reply.blocks.iter().map(part).collect();
    let content = json!({ "role": "model", "parts": parts });
    json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": {
            "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15,
        },
    })
}

/// A reply as the events of a stream.
pub fn events(reply: &Reply) -> String {
    format!("data: {}\n\n", answer(reply))
}

/// A reply in one piece.
pub fn whole(reply: &Reply) -> String {
    answer(reply).to_string()
}
