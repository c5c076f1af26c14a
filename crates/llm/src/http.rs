//! The HTTP client of the process: connections, TLS, proxies. Root certificates are compiled in, because loading the
//! platform's adds tens of milliseconds to startup. Redirects are not followed, so that a key is sent only to the
//! configured URL.

use crate::BuildError;
use crate::limits;
use crate::throttle::{RateLimits, Throttle};
use althing_protocol::BackendConfig;
use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// More certificates in PEM format, for a private CA or a proxy.
    pub extra_ca_pem: Option<Vec<u8>>,
}

/// A client for model servers. Clones share connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tls: rustls::ClientConfig,
    /// By connect timeout, which reqwest sets per client, and by whether the client is for local servers.
    clients: Mutex<Vec<(Duration, bool, reqwest::Client)>>,
    throttles: Mutex<Vec<(u64, Arc<Throttle>)>>,
}

impl HttpClient {
    /// Opens no connection. `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honored, except for servers
    /// on this machine.
    pub fn new(options: &HttpOptions) -> Result<Self, BuildError> {
        let tls = tls_config(options)?;
        let inner = Inner { tls, clients: Mutex::default(), throttles: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// For a local server, no proxy is used: the proxy could not reach it.
    pub(crate) fn client(&self, limit: Duration, local: bool) -> Result<reqwest::Client, BuildError> {
        let mut clients = self.inner.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, client)) =
            clients.iter().find(|(known, direct, _)| (*known, *direct) == (limit, local))
        {
            return Ok(client.clone());
        }
        let builder = reqwest::Client::builder();
        let client = if local { builder.no_proxy() } else { builder }
            .tls_backend_preconfigured(self.inner.tls.clone())
            .user_agent(concat!("althing/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(limit)
            .pool_idle_timeout(limits::KEEP_ALIVE)
            .pool_max_idle_per_host(usize::MAX)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| BuildError::Client { reason: error.without_url().to_string() })?;
        clients.push((limit, local, client.clone()));
        Ok(client)
    }

    /// A client for services other than models, such as a telemetry collector.
    pub fn service(&self, host: &str, connect: Duration) -> Result<reqwest::Client, BuildError> {
        self.client(connect, is_local(host))
    }

    /// The throttle is shared by all configs with the same API key at the same server and with the same
    /// `backend.type`.
    pub(crate) fn throttle(&self, config: &BackendConfig, url: &Url) -> Result<Arc<Throttle>, BuildError> {
        let allowed = RateLimits::from_params(&config.params)?;
        let key = key_of(config, url);
        let mut throttles = self.inner.throttles.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            throttles.iter().find(|(known, _)| *known == key).map(|(_, throttle)| Arc::clone(throttle));
        let throttle = known.unwrap_or_else(|| {
            let throttle = Arc::new(Throttle::new());
            throttles.push((key, Arc::clone(&throttle)));
            throttle
        });
        throttle.tighten(allowed);
        Ok(throttle)
    }
}

fn key_of(config: &BackendConfig, url: &Url) -> u64 {
    let mut hasher = DefaultHasher::new();
    let key = config.api_key.as_ref().map(|key| key.reveal().trim());
    (&config.kind, url.host_str(), url.port_or_known_default(), key).hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn is_local(host: &str) -> bool {
    let is_loopback = || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    host == "localhost" || host.ends_with(".localhost") || host == "[::1]" || is_loopback()
}

pub(crate) fn is_private(host: &str) -> bool {
    is_local(host) || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_private())
}

fn tls_config(options: &HttpOptions) -> Result<rustls::ClientConfig, BuildError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = &options.extra_ca_pem {
        let bad = |reason: String| BuildError::BadCa { reason };
        let mut any = false;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            any = true;
        }
        if !any {
            return Err(bad("it contains no certificate".to_owned()));
        }
    }
    let mut config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| BuildError::Client { reason: error.to_string() })?
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extra_ca_without_a_certificate_is_rejected() {
        let options = HttpOptions { extra_ca_pem: Some(b"hello".to_vec()) };
        let error = HttpClient::new(&options).unwrap_err();
        assert_eq!(error, BuildError::BadCa { reason: "it contains no certificate".to_owned() });
    }

    #[test]
    fn backends_with_the_same_connect_limit_share_one_client() {
        let http = HttpClient::new(&HttpOptions::default()).unwrap();
        http.client(limits::CONNECT, false).unwrap();
        http.clone().client(limits::CONNECT, false).unwrap();
        http.client(Duration::from_secs(1), false).unwrap();
        http.client(limits::CONNECT, true).unwrap();
        assert_eq!(http.inner.clients.lock().unwrap().len(), 3);
    }
}
