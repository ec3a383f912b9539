//! What is probably meant by something that cannot be read: the hints for mistakes that newcomers make.

/// What is probably meant by an expression that does not parse, or whose names mean nothing.
pub(crate) fn expression(text: &str) -> Option<String> {
    // Texts in quotes are not looked at: `=` and `!` may stand there.
    let bare = without_texts(text);
    let has = |part: &str| bare.contains(part);
    let single_equals =
        bare.replace("==", "").replace("!=", "").replace("<=", "").replace(">=", "");
    let hint = if has("{{") || has("{%") {
        "it is an expression already: write it without `{{ }}`"
    } else if has("&&") || has("||") {
        "write `and` and `or`, not `&&` and `||`"
    } else if has("===") {
        "write `==`, not `===`"
    } else if has("<>") {
        "write `!=`, not `<>`"
    } else if bare.replace("!=", "").contains('!') {
        "write `not`, not `!`"
    } else if single_equals.contains('=') && !has("(") {
        "compare with `==`, not `=`"
    } else if bare.contains('?') {
        "write `a if test else b`, not `test ? a : b`"
    } else if text.matches('\'').count() % 2 == 1 || text.matches('"').count() % 2 == 1 {
        "a quote is not closed"
    } else if bare.matches('(').count() != bare.matches(')').count() {
        "a bracket is not closed"
    } else {
        return None;
    };
    Some(hint.into())
}

/// The expression with every quoted text emptied.
fn without_texts(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut open = None;
    for c in text.chars() {
        match open {
            Some(quote) if c == quote => open = None,
            Some(_) => continue,
            None if c == '\'' || c == '"' => open = Some(c),
            None => {}
        }
        bare.push(c);
    }
    bare
}

/// What is probably meant by a name that means nothing.
pub(crate) fn name(name: &str) -> Option<String> {
    let hint = match name {
        "null" | "nil" | "None" | "undefined" => "write `none`, as in `x is none`",
        "True" | "TRUE" => "write `true`",
        "False" | "FALSE" => "write `false`",
        "empty" => "an empty text or list is not true: `not x`",
        "len" | "size" | "count" => "the length of a list is `items | length`",
        "checks" => "a check is read as `check.NAME.ok`",
        "phase" => "the phase is a field of the state document: `state.phase`",
        "self" | "this" => "the state document is `state`, the run `run`",
        _ => return None,
    };
    Some(hint.into())
}

/// What to do about a table that does not have the form that it should have, by serde's words for it.
pub(crate) fn shape(message: &str) -> Option<String> {
    let quoted = |prefix: &str| Some(message.strip_prefix(prefix)?.split('`').next()?.to_string());
    if let Some(field) = quoted("missing field `") {
        let hint = match field.as_str() {
            "name" => "begin with `name = \"…\"`: what the workflow is called, as its file is",
            "about" => "say in a sentence what it is for: `about = \"…\"`",
            "initial" => {
                "say in which phase a run starts: `initial = \"PHASE\"`, before the first table"
            }
            "run" => "say what it runs: `run = [\"program\", \"argument\"]`",
            "prompt" => "say what it is told: `prompt = \"file.md\"`, a file in `prompts/`",
            "writes" => "say where the review goes: `writes = \"reviews/review.md\"`",
            "each" => "say what it is bound to: `each = \"state.items\"`",
            _ => return None,
        };
        return Some(hint.into());
    }
    if let Some(field) = quoted("unknown field `") {
        let is_head = message.contains("`about`") && message.contains("`final`");
        let hint = match field.as_str() {
            "command" | "cmd" | "args" | "exec" | "script" if message.contains("`run`") => {
                "the key is `run`: a list of a program and its arguments"
            }
            "if" | "guard" | "condition" | "unless" => "a guard is `when = \"expression\"`",
            "event" => "the event is `on`",
            "to" | "next" | "target" | "then" => "the next phase is `goto`",
            "reason" | "text" | "say" => "what the agent is told is the text of `block`",
            "standing" | "initial" | "patience" | "reentry" | "document" | "name" if is_head => {
                return Some(format!(
                    "`{field}` is a key of the head: move it to the top, before the first table"
                ));
            }
            "rule" => "the list is called `rules`",
            _ => return None,
        };
        return Some(hint.into());
    }
    if let Some(variant) = quoted("unknown variant `") {
        if message.contains("`inactive`") {
            let meant = match variant.as_str() {
                "success" | "ok" | "pass" | "passed" | "complete" | "finished" => "done",
                "wait" | "pending" | "human" | "blocked" => "waiting",
                "fail" | "failed" | "error" | "cancelled" => "aborted",
                _ => return None,
            };
            return Some(format!("did you mean `{meant}`?"));
        }
        return None;
    }
    let hint =
        if message.contains("expected a string") && message.starts_with("invalid type: integer") {
            "a time is a text with a unit: \"30s\", \"10m\", \"1h\""
        } else if message.contains("expected a boolean") {
            "write `true` or `false`, without quotes"
        } else if message.starts_with("invalid type: string") && message.contains("sequence") {
            "write a list: `[\"…\"]`"
        } else {
            return None;
        };
    Some(hint.into())
}

/// What to do about a line that is not TOML.
pub(crate) fn toml(line: &str, message: &str) -> Option<String> {
    if message.contains("duplicate key") || message.contains("defined twice") {
        return Some("a name can be used only once: rename one, or merge the two".into());
    }
    let quotes = line.replace("\\\"", "").matches('"').count();
    let value = line.split_once('=').map(|(_, value)| value.trim()).unwrap_or_default();
    let nested = line.contains("== \"") || line.contains("!= \"");
    let hint = if nested || quotes > 2 && !line.contains(['{', '[']) {
        "inside double quotes, quote with single ones: when = \"state.mode == 'fast'\""
    } else if quotes % 2 == 1 {
        "a quote is not closed on this line; text of several lines goes in \"\"\"three quotes\"\"\""
    } else if value.starts_with('\'') || value.is_empty() && line.contains('=') {
        "a value is missing after `=`"
    } else if line.contains(": ") && !line.contains('=') {
        "TOML writes `key = value`, not `key: value`"
    } else if ["True", "False", "yes", "no"].contains(&value) {
        "write `true` or `false`"
    } else if value.chars().next().is_some_and(char::is_alphabetic) {
        "text goes in quotes: `key = \"value\"`"
    } else {
        return None;
    };
    Some(hint.into())
}
