//! The one HTTP client of the process: connections, TLS, proxies.
//!
//! Decides how we connect, never what is said. Roots of trust are compiled in (`webpki-roots`): loading the platform's
//! certificates costs tens of milliseconds at start, and a start must stay cheap. Redirects are not followed: a key
//! goes to the address that the user wrote and nowhere else.

use crate::BuildError;
use crate::limits;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How the process connects to anything.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// Certificates in PEM form to trust beside the public ones, for a company's own authority or proxy.
    pub extra_ca_pem: Option<Vec<u8>>,
}

/// The HTTP client. Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tls: rustls::ClientConfig,
    /// One per connect limit in use, because the library has that limit per client. Nearly always one.
    clients: Mutex<Vec<(Duration, reqwest::Client)>>,
}

impl HttpClient {
    /// Sets the client up; opens no connection. `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured.
    pub fn new(options: &HttpOptions) -> Result<Self, BuildError> {
        let tls = tls_config(options)?;
        Ok(Self { inner: Arc::new(Inner { tls, clients: Mutex::new(Vec::new()) }) })
    }

    /// The client that gives up connecting after this long.
    pub(crate) fn connecting_within(&self, limit: Duration) -> Result<reqwest::Client, BuildError> {
        let mut clients = self.inner.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == limit) {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
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
        clients.push((limit, client.clone()));
        Ok(client)
    }
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
            return Err(bad("it holds no certificate".to_owned()));
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
    fn an_extra_ca_that_is_none_is_refused() {
        let options = HttpOptions { extra_ca_pem: Some(b"hello".to_vec()) };
        let error = HttpClient::new(&options).unwrap_err();
        assert_eq!(error, BuildError::BadCa { reason: "it holds no certificate".to_owned() });
    }

    #[test]
    fn backends_with_the_same_connect_limit_share_one_client() {
        let http = HttpClient::new(&HttpOptions::default()).unwrap();
        http.connecting_within(limits::CONNECT).unwrap();
        http.clone().connecting_within(limits::CONNECT).unwrap();
        http.connecting_within(Duration::from_secs(1)).unwrap();
        assert_eq!(http.inner.clients.lock().unwrap().len(), 2);
    }
}
