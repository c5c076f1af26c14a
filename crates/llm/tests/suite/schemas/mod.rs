//! The documented shapes of the providers' request bodies, written by hand, and a checker: required fields, types,
//! and no undocumented fields.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::Value;

pub(crate) enum Shape {
    Any,
    Text,
    Whole,
    Number,
    Flag,
    Word(&'static [&'static str]),
    List(Box<Shape>),
    Map(Box<Shape>),
    Object(Vec<Field>),
    OneOf(Vec<Shape>),
    Again(fn() -> Shape),
}

pub(crate) struct Field {
    name: &'static str,
    required: bool,
    shape: Shape,
}

fn must(name: &'static str, shape: Shape) -> Field {
    Field { name, required: true, shape }
}

fn may(name: &'static str, shape: Shape) -> Field {
    Field { name, required: false, shape }
}

fn list(shape: Shape) -> Shape {
    Shape::List(Box::new(shape))
}

pub(crate) fn check(kind: &str, body: &Value) -> Result<(), String> {
    let shape = match kind {
        "openai" => responses::body(),
        "claude" => messages::body(),
        "gemini" => gemini::body(),
        _ => chat::body(),
    };
    fits(body, &shape, "body")
}

fn fits(value: &Value, shape: &Shape, at: &str) -> Result<(), String> {
    let wrong = |wanted: &str| Err(format!("{at}: {wanted} expected, found {value}"));
    match shape {
        Shape::Any => Ok(()),
        Shape::Text if value.is_string() => Ok(()),
        Shape::Text => wrong("a string"),
        Shape::Whole if value.is_u64() || value.is_i64() => Ok(()),
        Shape::Whole => wrong("a whole number"),
        Shape::Number if value.is_number() => Ok(()),
        Shape::Number => wrong("a number"),
        Shape::Flag if value.is_boolean() => Ok(()),
        Shape::Flag => wrong("true or false"),
        Shape::Word(words) if value.as_str().is_some_and(|word| words.contains(&word)) => Ok(()),
        Shape::Word(words) => wrong(&format!("one of {words:?}")),
        Shape::Again(shape) => fits(value, &shape(), at),
        Shape::OneOf(shapes) => {
            let tried: Vec<String> = shapes.iter().filter_map(|shape| fits(value, shape, at).err()).collect();
            if tried.len() < shapes.len() { Ok(()) } else { Err(tried.join("\n or ")) }
        }
        Shape::List(inner) => {
            let Some(items) = value.as_array() else { return wrong("a list") };
            items.iter().enumerate().try_for_each(|(n, item)| fits(item, inner, &format!("{at}[{n}]")))
        }
        Shape::Map(inner) => {
            let Some(fields) = value.as_object() else { return wrong("an object") };
            fields.iter().try_for_each(|(key, value)| fits(value, inner, &format!("{at}.{key}")))
        }
        Shape::Object(fields) => {
            let Some(object) = value.as_object() else { return wrong("an object") };
            if let Some(missing) =
                fields.iter().find(|field| field.required && !object.contains_key(field.name))
            {
                return Err(format!("{at}: `{}` is missing in {value}", missing.name));
            }
            object.iter().try_for_each(|(key, value)| {
                let field = fields.iter().find(|field| field.name == key);
                let field = field.ok_or_else(|| format!("{at}: `{key}` is not documented"))?;
                fits(value, &field.shape, &format!("{at}.{key}"))
            })
        }
    }
}

#[test]
fn the_checker_finds_what_is_missing_unknown_or_of_another_type() {
    use serde_json::json;
    let good = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(check("claude", &good), Ok(()));
    for (change, complaint) in [
        (json!({"max_tokens": "1"}), "body.max_tokens: a whole number expected"),
        (json!({"seed": 1}), "`seed` is not documented"),
        (json!({"messages": [{"content": "hi"}]}), "body.messages[0]: `role` is missing"),
    ] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let found = check("claude", &bad).unwrap_err();
        assert!(found.contains(complaint), "{found}");
    }
}
