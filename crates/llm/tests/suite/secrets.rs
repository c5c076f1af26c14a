//! No error message and no debug output contains an API key, a secret header or a password from an address, because
//! people, logs and files show these texts.

use super::support::{KINDS, build, call, config, config_of, http, request};
use althing_protocol::Secret;
use althing_testkit::{Action, FakeModel, Script};
use serde_json::json;

const KEY: &str = "sk-very-secret-key";
const HEADER: &str = "header-secret-value";

#[tokio::test]
async fn a_provider_that_quotes_the_key_does_not_get_it_into_a_message() {
    let body = format!(r#"{{"error":{{"message":"bad key {KEY} in header {HEADER}"}}}}"#);
    let plain = |status: &str, body: &str| {
        Action::Raw(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into())
    };
    let in_stream = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {body}\n\n");
    let page = format!("<html>{KEY} {HEADER}</html>");
    let actions = [
        plain("401 No", &body),
        plain("500 No", &body),
        plain("503 No", &page),
        Action::Raw(in_stream.into()),
    ];
    for (kind, action) in KINDS.iter().flat_map(|kind| actions.iter().map(move |action| (kind, action))) {
        let server = FakeModel::start(Script::always(action.clone())).await;
        let mut section = config_of(kind, &server.base_url(), json!({}));
        section.api_key = Some(Secret::new(format!(" {KEY}\n")));
        section.headers = vec![("X-Other".into(), Secret::new(HEADER))];
        let called = call(&*build(&section), &request("hi")).await;
        let shown = format!("{called:?} {}", called.error());
        assert!(!shown.contains(KEY) && !shown.contains(HEADER), "{shown}");
        assert!(shown.contains('…'), "{shown}");
    }
}

#[tokio::test]
async fn a_content_type_that_quotes_the_key_does_not_get_it_into_a_message() {
    let key = "sk-Very-Secret-Key";
    // In the last text, the key begins before byte 60 and ends after it; at most 60 bytes are shown.
    let quoted = [key.to_owned(), format!("page/{key}; charset=utf-8"), format!("{}{key}", "x".repeat(50))];
    for (kind, quoted) in KINDS.iter().flat_map(|kind| quoted.iter().map(move |quoted| (kind, quoted))) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {quoted}\r\ncontent-length: 0\r\n\r\n");
        let server = FakeModel::start(Script::always(Action::Raw(head.into()))).await;
        let mut section = config_of(kind, &server.base_url(), json!({}));
        section.api_key = Some(Secret::new(key));
        let called = call(&*build(&section), &request("hi")).await;
        let shown = format!("{called:?} {}", called.error());
        assert!(shown.contains("instead of an event stream"), "{shown}");
        assert!(!shown.to_ascii_lowercase().contains("sk-very-s"), "{quoted}: {shown}");
    }
}

#[tokio::test]
async fn a_password_in_the_address_is_in_no_message() {
    for base in ["http://user:hunter22@127.0.0.1:1/v1", "http://user:hunter22@no-such-host.invalid/v1"] {
        let called = call(&*build(&config(base, json!({"max_retries": 0}))), &request("hi")).await;
        let shown = format!("{:?}", called.error());
        assert!(!shown.contains("hunter22"), "{shown}");
    }
}

#[test]
fn debug_output_has_no_key() {
    let mut section = config("http://127.0.0.1:1/v1", json!({}));
    section.api_key = Some(Secret::new(format!("{KEY}\u{7f}")));
    let error =
        althing_llm::backend(&section, &http(), &althing_llm::PriceTable::default()).map(|_| ()).unwrap_err();
    assert!(!format!("{section:?} {error:?} {error} {:?}", http()).contains(KEY));
}
