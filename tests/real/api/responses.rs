//! The Responses API.

use serde_json::{Value, json};

use super::{Reply, Request, result_block, said, text_block, use_block};

/// A request in our shape. A tool of a namespace is `namespace/tool`.
pub fn request(body: &Value) -> Request {
    let items = body["input"].as_array().into_iter().flatten();
    let messages = items.filter_map(message).collect();
    let mut tools = Vec::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().or(tool["type"].as_str()).unwrap_or_default();
        match tool["tools"].as_array() {
            Some(inner) => tools.extend(
                inner.iter().filter_map(|it| Some(format!("{name}/{}", it["name"].as_str()?))),
            ),
            None => tools.push(name.to_string()),
        }
    }
    Request::other(body, messages, tools)
}

fn message(item: &Value) -> Option<Value> {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    Some(match text("type") {
        "message" => {
            let parts = item["content"].as_array().into_iter().flatten();
            let texts = parts.filter_map(|part| part["text"].as_str()).map(text_block);
            let role = match text("role") {
                role @ ("user" | "assistant") => role,
                _ => "system",
            };
            said(role, &texts.collect::<Vec<_>>())
        }
        "function_call" => {
            let input = serde_json::from_str(text("arguments")).unwrap_or_default();
            said("assistant", &[use_block(text("name"), input)])
        }
        "function_call_output" => {
            let output = &item["output"];
            let output = output.as_str().map_or_else(|| output.to_string(), str::to_string);
            said("user", &[result_block(&output)])
        }
        _ => return None,
    })
}

/// A reply as the events of a stream.
pub fn events(reply: &Reply, number: usize) -> String {
    let id = format!("resp_{number}");
    let item = |(index, block): (usize, &Value)| {
        let own = format!("item_{number}_{index}");
        if block["type"] == "text" {
            let part = json!({ "type": "output_text", "text": block["text"], "annotations": [] });
            return json!({
                "type": "message", "id": own, "role": "assistant", "status": "completed",
                "content": [part],
            });
        }
        let name = block["name"].as_str().unwrap_or_default();
        let (namespace, name) = name.split_once('/').map_or((None, name), |(a, b)| (Some(a), b));
        let mut call = json!({
            "type": "function_call", "id": own, "call_id": format!("call_{number}_{index}"),
            "name": name, "arguments": block["input"].to_string(), "status": "completed",
        });
        if let Some(namespace) = namespace {
            call["namespace"] = namespace.into();
        }
        call
    };
    let items: Vec<Value> = reply.blocks.iter().enumerate().map(item).collect();
    let response = |status: &str, output: &[Value]| {
        json!({
            "id": id, "object": "response", "status": status, "output": output,
            "usage": {
                "input_tokens": 10, "input_tokens_details": null, "output_tokens": 5,
                "output_tokens_details": null, "total_tokens": 15,
            },
        })
    };
    let mut events =
        vec![json!({ "type": "response.created", "response": response("in_progress", &[]) })];
    for (index, item) in items.iter().enumerate() {
        let done = json!({ "type": "response.output_item.done", "output_index": index });
        events.push(with(done, "item", item.clone()));
    }
    events.push(json!({ "type": "response.completed", "response": response("completed", &items) }));
    let lines = events.iter().map(|event| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    });
    lines.collect()
}

fn with(mut value: Value, name: &str, member: Value) -> Value {
    value[name] = member;
    value
}
