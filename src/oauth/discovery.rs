//! What a provider says of itself.

use reqwest::{StatusCode, Url};
use serde::Deserialize;

use super::error::{OauthError, plain};
use super::http;
use super::provider::{About, Client, Provider, ReturnTo};

/// The part of a provider's document that counts here (RFC 8414 2).
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Provider {
    /// Asks a provider where things are: at `<issuer>/.well-known/openid-configuration`, and where there is no such page,
    /// as RFC 8414 has it. The client registers `http://127.0.0.1/` as its redirect URI, of any port. Its secret goes into
    /// a header, unless the provider takes it in the form only.
    ///
    /// # Errors
    ///
    /// [`OauthError::Client`] when `issuer` is no address for this; [`OauthError::Later`]; else [`OauthError::Protocol`],
    /// also when the document speaks of another issuer, or of addresses to which no secret may go.
    pub async fn discover(issuer: &str, client: Client, scopes: &[&str]) -> Result<Self, OauthError> {
        let host = http::host(issuer);
        let base = http::check(issuer).map_err(|why| OauthError::client(&host, format!("the issuer {why}")))?;
        if base.query().is_some() {
            return Err(OauthError::client(&host, "the issuer has a query"));
        }
        let mut answer = http::get(&well_known(&base, true)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            answer = http::get(&well_known(&base, false)).await?;
        }
        if answer.status != StatusCode::OK {
            let why = format!("it does not describe itself as OpenID providers do (HTTP {})", answer.status.as_u16());
            return Err(OauthError::protocol(&host, why));
        }
        let broken = |_| OauthError::protocol(&host, "its OpenID configuration can't be read");
        let document: Document = serde_json::from_value(answer.json(&host)?.into()).map_err(broken)?;
        if document.issuer != issuer {
            let named: String = plain(&document.issuer).chars().take(100).collect();
            let why = format!("it calls itself another issuer than the one that was asked for: {named}");
            return Err(OauthError::protocol(&host, why));
        }
        let about = document.about(client.id, scopes);
        about.check()?;
        Ok(Self { about, secret: client.secret })
    }
}

impl Document {
    fn about(self, client_id: String, scopes: &[&str]) -> About {
        // Who says nothing takes the header alone (RFC 8414 2).
        let methods = self.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.as_ref().is_some_and(|all| all.iter().any(|one| one == method));
        let basic = methods.is_none() || takes("client_secret_basic") || !takes("client_secret_post");
        // Without consent there is no access while the person is away (OpenID Connect Core 11).
        let away = scopes.contains(&"offline_access");
        About {
            issuer: self.issuer,
            authorization: self.authorization_endpoint,
            token: self.token_endpoint,
            device: self.device_authorization_endpoint,
            revocation: self.revocation_endpoint,
            client_id,
            basic,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            parameters: away.then(|| ("prompt".to_owned(), "consent".to_owned())).into_iter().collect(),
            return_to: ReturnTo::Address,
            tells_issuer: self.authorization_response_iss_parameter_supported,
        }
    }
}

/// Behind the issuer's path as OpenID Connect has it, or before it as RFC 8414 has it.
fn well_known(issuer: &Url, openid: bool) -> Url {
    let path = issuer.path().trim_end_matches('/');
    let path = if openid {
        format!("{path}/.well-known/openid-configuration")
    } else {
        format!("/.well-known/oauth-authorization-server{path}")
    };
    let mut url = issuer.clone();
    url.set_path(&path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server};
    use serde_json::{Value, json};

    fn client() -> Client {
        Client { id: "home".to_owned(), secret: None }
    }

    async fn of(document: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Result<Provider, OauthError> {
        let server = Server::start(move |asked, base| match asked.path.as_str() {
            "/.well-known/openid-configuration" => document(base),
            _ => Reply::html(404),
        });
        Provider::discover(&server.await.base, client(), &["openid", "offline_access"]).await
    }

    fn good(base: &str) -> Value {
        json!({"issuer": base, "authorization_endpoint": format!("{base}/auth"), "token_endpoint": format!("{base}/token"),
            "device_authorization_endpoint": format!("{base}/device"), "more": {"than": ["is", "known"]}})
    }

    #[tokio::test]
    async fn a_provider_that_describes_itself_is_known() {
        let provider = of(|base| Reply::json(200, &good(base))).await.unwrap();
        assert!(provider.about.device.is_some() && provider.about.basic && !provider.about.tells_issuer);
        assert_eq!(provider.about.parameters, [("prompt".to_owned(), "consent".to_owned())]);
        let at = |issuer: &str, openid| well_known(&Url::parse(issuer).unwrap(), openid).to_string();
        assert_eq!(at("https://a.example/x/", true), "https://a.example/x/.well-known/openid-configuration");
        assert_eq!(at("https://a.example/x", false), "https://a.example/.well-known/oauth-authorization-server/x");
    }

    #[tokio::test]
    async fn a_document_that_leads_elsewhere_is_not_believed() {
        for (key, value, want) in [
            ("issuer", "https://evil.example", "127.0.0.1: it calls itself another issuer"),
            ("token_endpoint", "http://evil.example/token", "its token endpoint does not begin with https://"),
            ("authorization_endpoint", "javascript:alert(1)", "its authorization endpoint has no host"),
            ("device_authorization_endpoint", "https://a:b@evil.example/", "its device endpoint holds a login"),
        ] {
            let changed = move |base: &str| {
                let mut document = good(base);
                document[key] = value.into();
                Reply::json(200, &document)
            };
            let error = of(changed).await.unwrap_err();
            assert!(matches!(error, OauthError::Protocol { .. }) && error.to_string().contains(want), "{error}");
        }
        let moved = of(|_| Reply::raw("HTTP/1.1 302 Found\r\nlocation: https://evil.example/\r\n\r\n")).await;
        assert_eq!(moved.unwrap_err().to_string(), "127.0.0.1: it redirects (HTTP 302), which is not followed");
        for nonsense in [Reply::html(200), Reply::json(200, &json!([])), Reply::json(200, &json!({"issuer": 1}))] {
            let error = of(move |_| nonsense.clone()).await.unwrap_err();
            assert!(matches!(error, OauthError::Protocol { .. }), "{error}");
        }
        assert!(matches!(of(|_| Reply::Endless).await.unwrap_err(), OauthError::Protocol { .. }));
        for issuer in ["http://id.example", "id.example", "https://id.example/?a", "https://a:b@id.example"] {
            let error = Provider::discover(issuer, client(), &[]).await.unwrap_err();
            assert!(matches!(error, OauthError::Client { .. }) && !error.to_string().contains("a:b"), "{error}");
        }
    }
}
