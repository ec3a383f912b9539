//! TLS to the server, by rustls with a provider that is Rust and its assembler only.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

use super::address::{Roots, Security};

/// Where systems keep the authorities that they trust.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS as an address asks for it.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// What is asked for; none where TLS is not.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn of(security: &Security) -> Result<Option<Tls>, String> {
        if *security == Security::None {
            return Ok(None);
        }
        if !is_capable() {
            return match security {
                Security::Preferred => Ok(None),
                _ => Err("this processor lacks the instructions that TLS needs here".into()),
            };
        }
        let provider = Arc::new(rustls_graviola::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match security {
            Security::Full(roots) => verifier(roots, &provider)?,
            Security::Authority(roots) => Arc::new(Lenient {
                inner: Some(verifier(roots, &provider)?),
                provider: provider.clone(),
            }),
            _ => Arc::new(Lenient { inner: None, provider: provider.clone() }),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Some(Tls(Arc::new(config))))
    }
}

/// Whether the processor has what the provider is written for: those since about 2014 do.
fn is_capable() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("aes")
            && has!("ssse3")
            && has!("avx")
            && has!("avx2")
            && has!("adx")
            && has!("bmi2")
            && has!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected as has;
        has!("aes") && has!("sha2") && has!("pmull") && has!("neon")
    }
}

fn verifier(
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let file = match roots {
        Roots::File(file) => file.clone(),
        Roots::System => system().ok_or("the authorities of this system were not found")?,
    };
    let failed = |why: String| format!("{}: {why}", file.display());
    let mut store = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(&file).map_err(|error| failed(error.to_string()))?;
    for certificate in read {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        let added = store.add(certificate);
        // One of the system's that is not understood vouches for nobody.
        if let (Err(error), Roots::File(_)) = (added, roots) {
            return Err(failed(error.to_string()));
        }
    }
    if store.is_empty() {
        return Err(failed("there is no certificate in it".into()));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone())
        .build()
        .map_err(|error| failed(error.to_string()))
}

fn system() -> Option<PathBuf> {
    let chosen = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = SYSTEM.iter().map(|file| Path::new(file).to_path_buf());
    chosen.into_iter().chain(usual).find(|file| file.is_file())
}

/// Looks at less than the whole: not at the name, or not at the certificate at all, as `sslmode` says.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer,
        intermediates: &[CertificateDer],
        name: &ServerName,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS with a server of a name.
pub struct Named {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Named;
    type Error = Box<dyn Error + Sync + Send>;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Named, Self::Error> {
        // A socket has no name, and no TLS either.
        let domain = if domain.is_empty() { "localhost" } else { domain };
        Ok(Named { config: self.0.clone(), name: ServerName::try_from(domain.to_string())? })
    }
}

impl<S> TlsConnect<S> for Named
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let Named { config, name } = self;
        Box::pin(async move {
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            Ok(Stream(Box::new(stream)))
        })
    }
}

/// A connection with TLS.
pub struct Stream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
