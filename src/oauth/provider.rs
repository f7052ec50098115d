//! Who gives access, and as which client one asks there.

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::error::OauthError;
use super::http;
use base::Secret;

/// Stands in an issuer for any tenant of the provider.
const ANY_TENANT: &str = "{tenantid}";

/// What the provider knows this household as. The owner registers it there once.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    /// Not every provider gives one to installed programs; Google does.
    pub secret: Option<Secret<String>>,
}

/// Who gives access, and as which client one asks there. It never holds tokens.
#[derive(Clone, Debug)]
pub struct Provider {
    pub(crate) about: About,
    pub(crate) secret: Option<Secret<String>>,
}

/// All of it that is no secret, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    /// May hold [`ANY_TENANT`].
    pub issuer: String,
    pub authorization: String,
    pub token: String,
    pub device: Option<String>,
    pub revocation: Option<String>,
    pub client_id: String,
    /// Whether the client's secret goes into a header (RFC 6749 2.3.1) instead of the form.
    pub basic: bool,
    pub scopes: Vec<String>,
    /// Of the authorization request, beside those of the protocol.
    pub parameters: Vec<(String, String)>,
    /// Where the browser comes back to; the port is added.
    pub return_to: ReturnTo,
    /// Whether an answer by the browser always says its issuer (RFC 9207).
    pub tells_issuer: bool,
}

/// How this machine is called in the address at which the browser ends. Providers compare it with what is registered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReturnTo {
    /// `http://127.0.0.1:PORT/`, as RFC 8252 7.3 wants it.
    Address,
    /// `http://localhost:PORT`, which is the only one that Microsoft lets people register.
    Name,
}

impl ReturnTo {
    pub fn at(self, port: u16) -> String {
        match self {
            Self::Address => format!("http://127.0.0.1:{port}/"),
            Self::Name => format!("http://localhost:{port}"),
        }
    }
}

impl Provider {
    /// Mail at Google. The client is of the type "Desktop app" and has a secret. There is no device flow: Google lets no
    /// mailbox be read by it.
    ///
    /// Source: <https://developers.google.com/identity/protocols/oauth2/native-app>.
    pub fn google(client: Client) -> Self {
        Self::google_for(client, &["https://mail.google.com/"])
    }

    /// At Google, what these scopes open and nothing else, besides whose account it is.
    pub fn google_for(client: Client, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().chain(&["openid", "email"]).map(|scope| (*scope).to_owned()).collect();
        let about = About {
            issuer: "https://accounts.google.com".to_owned(),
            authorization: "https://accounts.google.com/o/oauth2/v2/auth".to_owned(),
            token: "https://oauth2.googleapis.com/token".to_owned(),
            device: None,
            revocation: Some("https://oauth2.googleapis.com/revoke".to_owned()),
            client_id: client.id,
            basic: false,
            scopes,
            parameters: Vec::new(),
            return_to: ReturnTo::Address,
            tells_issuer: false,
        };
        let provider = Self { about, secret: client.secret };
        // Without the second, only a person's first consent brings a refresh token.
        provider.with_parameter("access_type", "offline").with_parameter("prompt", "consent")
    }

    /// Mail at Microsoft, of people at home and of any organisation. The client is a "mobile and desktop application" with
    /// `http://localhost` as its redirect URI; for the device flow it "allows public client flows". Grants end at
    /// <https://account.live.com/consent/Manage> or <https://myapps.microsoft.com>: there is no call that revokes one.
    ///
    /// Source: <https://learn.microsoft.com/exchange/client-developer/legacy-protocols/how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth>.
    pub fn microsoft(client: Client) -> Self {
        let at = |what: &str| format!("https://login.microsoftonline.com/common/oauth2/v2.0/{what}");
        let mail = ["IMAP.AccessAsUser.All", "SMTP.Send"].map(|what| format!("https://outlook.office.com/{what}"));
        let scopes = mail.into_iter().chain(["offline_access", "openid", "email"].map(str::to_owned));
        let about = About {
            issuer: format!("https://login.microsoftonline.com/{ANY_TENANT}/v2.0"),
            authorization: at("authorize"),
            token: at("token"),
            device: Some(at("devicecode")),
            revocation: None,
            client_id: client.id,
            basic: false,
            scopes: scopes.collect(),
            parameters: Vec::new(),
            return_to: ReturnTo::Name,
            tells_issuer: false,
        };
        Self { about, secret: client.secret }
    }

    /// Adds a parameter to the authorization request, such as `login_hint`.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: &str) -> Self {
        self.about.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The host that gives tokens, for people.
    pub fn host(&self) -> String {
        http::host(&self.about.token)
    }

    /// What is asked for.
    pub fn scopes(&self) -> &[String] {
        &self.about.scopes
    }

    /// All but the client's secret as JSON, which [`Provider::from_json`] reads.
    pub fn to_json(&self) -> String {
        // Strings and lists of them can't fail.
        serde_json::to_string(&self.about).unwrap_or_default()
    }

    /// As [`Provider::to_json`], the client's secret included.
    pub fn to_json_with_secret(&self) -> Secret<String> {
        let mut json = serde_json::to_value(&self.about).unwrap_or_default();
        if let Some(secret) = &self.secret {
            json["client_secret"] = secret.expose().clone().into();
        }
        Secret::new(json.to_string())
    }

    /// What [`Provider::to_json`] or [`Provider::to_json_with_secret`] wrote.
    ///
    /// # Errors
    ///
    /// [`OauthError::Protocol`] when it is something else, or names an address to which no secret may go.
    pub fn from_json(json: &str) -> Result<Self, OauthError> {
        // What the reader says of a mistake may repeat the secret.
        let broken = |_| OauthError::protocol("the stored provider", "it can't be read");
        let mut json: serde_json::Value = serde_json::from_str(json).map_err(broken)?;
        let secret = json.get_mut("client_secret").map(serde_json::Value::take);
        let secret = secret.and_then(|secret| secret.as_str().map(|secret| Secret::new(secret.to_owned())));
        let about: About = serde_json::from_value(json).map_err(broken)?;
        about.check()?;
        Ok(Self { about, secret })
    }

    /// Whether an issuer that somebody names is this provider.
    pub(crate) fn is_issuer(&self, named: &str) -> bool {
        let own = self.about.issuer.as_str();
        if let Some((before, after)) = own.split_once(ANY_TENANT) {
            let tenant = named.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).unwrap_or_default();
            return !tenant.is_empty() && tenant.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        }
        // Google may leave out the scheme, as its own documentation says.
        named == own || own == "https://accounts.google.com" && named == "accounts.google.com"
    }
}

impl About {
    /// Whether all addresses are such that secrets may go there.
    pub fn check(&self) -> Result<(), OauthError> {
        let named = [
            ("authorization endpoint", Some(&self.authorization)),
            ("token endpoint", Some(&self.token)),
            ("device endpoint", self.device.as_ref()),
            ("revocation endpoint", self.revocation.as_ref()),
        ];
        for (name, url) in named {
            if let Some(Err(why)) = url.map(|url| http::check(url)) {
                return Err(OauthError::protocol(&http::host(&self.issuer), format!("its {name} {why}")));
            }
        }
        Ok(())
    }

    /// The authorization endpoint with these parameters and those of the provider.
    pub fn authorization_url(&self, parameters: &[(&str, &str)]) -> Result<String, OauthError> {
        let broken = |_| OauthError::protocol(&http::host(&self.issuer), "its authorization endpoint is not a URL");
        let mut url = Url::parse(&self.authorization).map_err(broken)?;
        url.query_pairs_mut().extend_pairs(parameters).extend_pairs(&self.parameters);
        Ok(url.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client { id: "home".to_owned(), secret: Some(Secret::new("hush-hush".to_owned())) }
    }

    #[test]
    fn what_is_stored_comes_back_and_holds_the_secret_only_when_it_is_asked_for() {
        for provider in [Provider::google(client()), Provider::microsoft(client())] {
            let (open, whole) = (provider.to_json(), provider.to_json_with_secret());
            assert!(!open.contains("hush") && whole.expose().contains("hush-hush"));
            let back = Provider::from_json(&open).unwrap();
            assert!(back.secret.is_none());
            let again = Provider { secret: client().secret, ..back };
            assert_eq!(again.to_json_with_secret().expose(), whole.expose());
            let back = Provider::from_json(whole.expose()).unwrap();
            assert_eq!(back.to_json_with_secret().expose(), whole.expose());
            assert!(!format!("{provider:?} {back:?} {:?}", client()).contains("hush"));
        }
    }

    #[test]
    fn a_stored_provider_that_was_changed_gets_no_secret() {
        let json = Provider::google(client()).to_json_with_secret();
        for (from, to) in [
            ("https://oauth2.googleapis.com/token", "http://evil.example/token"),
            ("https://oauth2.googleapis.com/revoke", "revoke"),
            ("\"token\"", "\"tokens\""),
            ("{", "["),
        ] {
            let error = Provider::from_json(&json.expose().replacen(from, to, 1)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }

    #[test]
    fn each_vendor_is_asked_for_what_it_wants() {
        let google = Provider::google(client());
        let url = google.about.authorization_url(&[("scope", &google.scopes().join(" "))]).unwrap();
        let want = "https://accounts.google.com/o/oauth2/v2/auth?scope=https%3A%2F%2Fmail.google.com%2F+openid+email\
                    &access_type=offline&prompt=consent";
        assert_eq!(url, want);
        let contacts = Provider::google_for(client(), &["https://www.googleapis.com/auth/contacts"]);
        assert_eq!(contacts.scopes(), ["https://www.googleapis.com/auth/contacts", "openid", "email"]);
        assert!(google.is_issuer("https://accounts.google.com") && google.is_issuer("accounts.google.com"));
        assert!(!google.is_issuer("https://accounts.google.com.evil.example"));
        let microsoft = Provider::microsoft(client());
        assert!(microsoft.is_issuer("https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"));
        for other in ["", "/", "a/b", "common/..", "x"] {
            assert!(!microsoft.is_issuer(&format!("https://login.microsoftonline.com/{other}/v2.0")), "{other}");
        }
        assert!(microsoft.about.device.is_some() && google.about.device.is_none());
        assert_eq!(microsoft.about.return_to.at(7), "http://localhost:7");
    }
}
