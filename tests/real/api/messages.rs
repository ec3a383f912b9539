//! Replies as the Messages API has them.

use serde_json::{Value, json};

use super::{Reply, Request};

/// A message without content.
pub fn message(request: &Request, reply: &Reply, number: usize) -> Value {
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant",
        "model": request.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 5 + reply.tokens, "output_tokens": 5 },
    })
}

/// The blocks of a reply, with ids that no other reply has.
pub fn numbered(reply: &Reply, number: usize) -> Vec<Value> {
    let blocks = reply.blocks.iter().enumerate().map(|(index, block)| {
        let mut block = block.clone();
        if block["type"] == "tool_use" {
            block["id"] = format!("toolu_{number}_{index}").into();
        }
        block
    });
    blocks.collect()
}

/// A reply as the events of a stream.
pub fn events(request: &Request, reply: &Reply, number: usize) -> String {
    let mut events =
        vec![json!({ "type": "message_start", "message": message(request, reply, number) })];
    for (index, mut block) in numbered(reply, number).into_iter().enumerate() {
        let delta = if block["type"] == "text" {
            json!({ "type": "text_delta", "text": std::mem::replace(&mut block["text"], "".into()) })
        } else {
            let input = std::mem::replace(&mut block["input"], json!({}));
            json!({ "type": "input_json_delta", "partial_json": input.to_string() })
        };
        events.extend([
            json!({ "type": "content_block_start", "index": index, "content_block": block }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]);
    }
    let delta = json!({ "stop_reason": reply.stop_reason(), "stop_sequence": null });
    events.extend([
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]);
    let lines = events.iter().map(|event| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    });
    lines.collect()
}
