//! Error messages for rejections, and that rejected requests are not repeated.

use super::support::{build, call, config, http, request};
use althing_llm::{BuildError, PriceTable, backend};
use althing_protocol::{BackendErrorKind as Kind, Secret};
use althing_testkit::{FakeModel, Fault, FaultMoment, Reply, Script};
use serde_json::json;

async fn refused(status: u16, kind: &str) -> (Kind, String, String, usize) {
    let script =
        Script::always(Reply::text("ok")).fault_always(Fault::Status(status), FaultMoment::BeforeHeaders);
    let server = FakeModel::start(script).await;
    let mut section = config(&server.base_url(), json!({}));
    section.kind = kind.into();
    let called = call(&*build(&section), &request("hi")).await;
    let error = called.error().clone();
    let port = server.address().port().to_string();
    (error.kind, error.message, error.hint.unwrap_or_default().replace(&port, "PORT"), server.request_count())
}

#[tokio::test]
async fn each_rejection_names_provider_reason_and_hint_and_is_not_retried() {
    let said = refused(401, "groq").await;
    let expected = (
        Kind::Auth,
        "groq gpt-5-mini: 401 Unauthorized: Incorrect API key provided: …. (invalid_api_key)".to_owned(),
        "check that the API key (the backend's `api_key`, or GROQ_API_KEY) is valid and has access to this model"
            .to_owned(),
        1,
    );
    assert_eq!(said, expected);
    let said = refused(404, "openai").await;
    let expected = (
        Kind::NotFound,
        "openai gpt-5-mini: 404 Not Found: The model `gpt-5-mini` does not exist or you do not have access to it. \
         (model_not_found)"
            .to_owned(),
        "check the model name `gpt-5-mini` and `base_url` (127.0.0.1:PORT/v1)".to_owned(),
        1,
    );
    assert_eq!(said, expected);
    for (status, kind) in
        [(400, Kind::BadRequest), (403, Kind::Auth), (413, Kind::BadRequest), (422, Kind::BadRequest)]
    {
        let (found, _, hint, requests) = refused(status, "openai").await;
        assert_eq!((found, requests), (kind, 1), "{status}");
        assert!(!hint.is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_persistent_server_error_reports_the_number_of_attempts() {
    let (kind, message, _, requests) = refused(500, "openai").await;
    assert_eq!((kind, requests), (Kind::Server, 5));
    assert!(message.ends_with("(gave up after 5 tries)"), "{message}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    use althing_testkit::Action;
    let elsewhere = FakeModel::start(Script::always(Reply::text("stolen"))).await;
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/chat/completions\r\ncontent-length: 0\r\n\r\n",
        elsewhere.base_url()
    );
    let server = FakeModel::start(Script::always(Action::Raw(answer.into()))).await;
    let called = call(&*build(&config(&server.base_url(), json!({}))), &request("hi")).await;
    assert_eq!(called.error().kind, Kind::NotFound);
    assert_eq!((server.request_count(), elsewhere.request_count()), (1, 0));
}

#[test]
fn an_invalid_config_is_rejected_before_any_call() {
    let refused = |change: fn(&mut althing_protocol::BackendConfig)| {
        let mut section = config("http://127.0.0.1:9/v1", json!({}));
        change(&mut section);
        backend(&section, &http(), &PriceTable::default()).map(|_| ()).unwrap_err()
    };
    let kind = || "openai".to_owned();
    assert_eq!(
        refused(|section| section.kind = "fax".into()),
        BuildError::UnknownKind { kind: "fax".into() }
    );
    assert_eq!(refused(|section| section.model = None), BuildError::NoModel { kind: kind() });
    assert_eq!(refused(|section| section.base_url = None), BuildError::NoAddress { kind: kind() });
    for bad in ["localhost:1234", "ftp://x/v1", "", "http://"] {
        let mut section = config(bad, json!({}));
        section.base_url = Some(bad.into());
        let error = backend(&section, &http(), &PriceTable::default()).map(|_| ()).unwrap_err();
        assert_eq!(error, BuildError::BadAddress { kind: kind() }, "{bad}");
    }
    assert_eq!(
        refused(|section| section.api_key = Some(Secret::new("a\nb"))),
        BuildError::BadKey { kind: kind() }
    );
    let bad_header = refused(|section| section.headers = vec![("a b".into(), Secret::new("x"))]);
    assert_eq!(bad_header, BuildError::BadHeader { name: "a b".into() });
    let bad_limit = refused(|section| {
        section.params.insert("max_retries".into(), json!("many"));
    });
    assert!(bad_limit.to_string().contains("max_retries"), "{bad_limit}");
}

#[test]
fn every_type_of_the_config_is_built() {
    for kind in [
        "openai",
        "claude",
        "gemini",
        "azure_openai",
        "ollama",
        "chatcompletion",
        "grok",
        "openrouter",
        "groq",
        "together",
        "fireworks",
        "cerebras",
        "moonshot",
        "nebius",
        "nvidia_nim",
        "poe",
        "qwen",
        "zai",
        "lmstudio",
        "vllm",
        "sglang",
        "inference",
        "offline",
    ] {
        let mut section = config("http://127.0.0.1:9/v1", json!({}));
        section.kind = kind.into();
        let built = backend(&section, &http(), &PriceTable::default()).unwrap();
        assert_eq!((built.info().kind.as_str(), built.info().offline), (kind, kind == "offline"));
    }
}
