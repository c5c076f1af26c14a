//! Proxies from the environment, and a custom certificate authority. The environment belongs to the whole process, so
//! each case runs in its own process: this test binary with a single test.

use super::support::{build, call, config, request};
use althing_llm::{HttpClient, HttpOptions, PriceTable, backend};
use althing_protocol::BackendErrorKind as Kind;
use althing_testkit::{FakeModel, Reply, Script};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

const CHILD: &str = "suite::network::one_call_in_a_process_of_its_own";

fn reported(outcome: &str) -> String {
    format!("<<{outcome}>>")
}

#[tokio::test]
async fn one_call_in_a_process_of_its_own() {
    let Ok(url) = std::env::var("ALTHING_TEST_URL") else { return };
    let extra_ca_pem = std::env::var("ALTHING_TEST_CA").ok().map(String::into_bytes);
    let http = HttpClient::new(&HttpOptions { extra_ca_pem }).unwrap();
    let section = config(&url, json!({"max_retries": 0, "connect_timeout_seconds": 5}));
    let called = call(&*backend(&section, &http, &PriceTable::default()).unwrap(), &request("hi")).await;
    let outcome = called.result.map_or_else(|error| error.to_string(), |reply| reply.text);
    println!("{}", reported(&outcome));
}

/// The child has these variables and no other proxy variables.
async fn child(url: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "--exact", "--nocapture"]).env("ALTHING_TEST_URL", url);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = output.split_once("<<").unwrap_or_else(|| panic!("{output}"));
    rest.split_once(">>").unwrap().0.to_owned()
}

/// Connects every host name to one server and records the requested names.
async fn proxy(target: SocketAddr) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let line = String::from_utf8_lossy(&head).lines().next().unwrap().to_owned();
                let mut server = TcpStream::connect(target).await.unwrap();
                if line.starts_with("CONNECT ") {
                    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                } else {
                    server.write_all(&head).await.unwrap();
                }
                record.lock().unwrap().push(line);
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

/// A TLS server for `https://model.test` in front of another server. Also returns the CA certificate (PEM).
async fn tls_in_front_of(target: SocketAddr) -> (SocketAddr, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["model.test".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(target).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, pem)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_goes_through_the_proxy_of_the_environment() {
    let server = FakeModel::start(Script::always(Reply::text("through"))).await;
    let (proxy, asked) = proxy(server.address()).await;
    let said = child("http://model.test/v1", &[("HTTP_PROXY", &proxy)]).await;
    assert_eq!(said, "through");
    assert_eq!(*asked.lock().unwrap(), ["POST http://model.test/v1/chat/completions HTTP/1.1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_goes_through_a_tunnel_of_the_proxy_and_an_extra_authority_is_trusted() {
    let server = FakeModel::start(Script::always(Reply::text("through"))).await;
    let (tls, pem) = tls_in_front_of(server.address()).await;
    let (proxy, asked) = proxy(tls).await;
    let url = "https://model.test/v1";
    assert_eq!(child(url, &[("HTTPS_PROXY", &proxy), ("ALTHING_TEST_CA", &pem)]).await, "through");
    assert_eq!(*asked.lock().unwrap(), ["CONNECT model.test:443 HTTP/1.1"]);
    let said = child(url, &[("HTTPS_PROXY", &proxy)]).await;
    assert!(said.contains("no secure connection"), "{said}");
    assert_eq!(server.request_count(), 1, "no request is sent to an untrusted server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_proxy_and_servers_on_this_machine_are_reached_directly() {
    let server = FakeModel::start(Script::always(Reply::text("direct"))).await;
    let (proxy, asked) = proxy(server.address()).await;
    let port = server.address().port();
    let other = format!("http://0.0.0.0:{port}/v1");
    assert_eq!(child(&other, &[("HTTP_PROXY", &proxy), ("NO_PROXY", "0.0.0.0")]).await, "direct");
    assert_eq!(child(&server.base_url(), &[("HTTP_PROXY", &proxy)]).await, "direct");
    assert!(asked.lock().unwrap().is_empty(), "{asked:?}");
    assert_eq!(child(&other, &[("ALL_PROXY", &proxy)]).await, "direct");
    assert_eq!(asked.lock().unwrap().len(), 1, "0.0.0.0 does not count as this machine");
}

#[tokio::test]
async fn a_dead_proxy_is_no_connection_and_its_password_is_in_no_message() {
    let said = child("http://model.test/v1", &[("HTTP_PROXY", "http://user:hunter22@127.0.0.1:1")]).await;
    assert!(said.contains("no connection") && !said.contains("hunter22"), "{said}");
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected_at_once() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let (tls, _) = tls_in_front_of(server.address()).await;
    let section = config(&format!("https://localhost:{}/v1", tls.port()), json!({}));
    let called = call(&*build(&section), &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, error.usage.calls), (Kind::Connect, 1), "{error}");
    assert!(error.hint.as_deref().unwrap().contains("CA file"), "{error:?}");
}
