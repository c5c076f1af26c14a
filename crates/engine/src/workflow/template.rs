//! Expands the templates in prompts: `{{goal}}`, and `{{task.output}}` for the output of an earlier task.

/// Expands a text. A placeholder without a value stays unchanged; the check of the workflow file has reported it
/// already.
pub(super) fn fill(text: &str, goal: &str, output: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once("}}") else {
            filled.push_str("{{");
            rest = after;
            continue;
        };
        let value = match name.trim() {
            "goal" => Some(goal.to_owned()),
            name => name.strip_suffix(".output").and_then(output),
        };
        rest = if let Some(value) = value {
            filled.push_str(&value);
            behind
        } else {
            filled.push_str("{{");
            after
        };
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn placeholders_are_expanded_once_and_unknown_ones_stay() {
        let output = |name: &str| (name == "log").then(|| "{{goal}} was met".to_owned());
        let filled = fill("{{goal}}: {{ log.output }}, {{x.output}}, {{open", "Ship", &output);
        assert_eq!(filled, "Ship: {{goal}} was met, {{x.output}}, {{open");
    }
}
