//! What pages load besides themselves: part of the binary, named by its content, so that a browser keeps it for good.

use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Response};
use http_body_util::{BodyExt, Full};
use mcp::Body;
use sha2::{Digest, Sha256};

use super::packed;

/// Where assets are served.
pub(super) const PREFIX: &str = "/assets/";

/// A file of the dashboard.
pub(super) struct Asset {
    stem: &'static str,
    extension: &'static str,
    content: &'static [u8],
    /// Its name with the beginning of its hash.
    name: OnceLock<String>,
    /// Compressed as it is first asked for: a daemon at which nobody looks holds none.
    gzip: OnceLock<Bytes>,
}

impl Asset {
    const fn new(stem: &'static str, extension: &'static str, content: &'static [u8]) -> Self {
        Self { stem, extension, content, name: OnceLock::new(), gzip: OnceLock::new() }
    }

    fn name(&self) -> &str {
        self.name.get_or_init(|| {
            let hash = base::text::hex(&Sha256::digest(self.content)[..6]);
            format!("{}.{hash}.{}", self.stem, self.extension)
        })
    }

    /// The address that pages name.
    pub fn href(&self) -> String {
        format!("{PREFIX}{}", self.name())
    }

    fn media_type(&self) -> &'static str {
        match self.extension {
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| packed::gzip(self.content, Compression::best())).clone()
    }
}

pub(super) static STYLE: Asset = Asset::new("style", "css", include_bytes!("assets/style.css"));
pub(super) static HTMX: Asset = Asset::new("htmx", "js", include_bytes!("assets/htmx.min.js"));
pub(super) static PAGE: Asset = Asset::new("page", "js", include_bytes!("assets/page.js"));
pub(super) static PLOT: Asset = Asset::new("uplot", "js", include_bytes!("assets/uplot.min.js"));
pub(super) static PLOT_STYLE: Asset = Asset::new("uplot", "css", include_bytes!("assets/uplot.min.css"));
pub(super) static ICON: Asset = Asset::new("icon", "svg", include_bytes!("assets/icon.svg"));

static ALL: [&Asset; 6] = [&STYLE, &HTMX, &PAGE, &PLOT, &PLOT_STYLE, &ICON];

/// The file of this path. `None`: no such file, or one of another version.
pub(super) fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let name = path.strip_prefix(PREFIX)?;
    let asset = ALL.iter().find(|asset| asset.name() == name)?;
    let takes_gzip = packed::takes_gzip(headers);
    let content = if takes_gzip { asset.gzip() } else { Bytes::from_static(asset.content) };
    let mut response = Response::new(Full::new(content).boxed_unsync());
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type()));
    own.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    own.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    own.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if takes_gzip {
        packed::mark(own);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

    #[test]
    fn the_first_load_stays_small() {
        let packed: usize = ALL.iter().map(|asset| asset.gzip().len()).sum();
        assert!(packed < 60 * 1024, "{packed} bytes, and pages come on top");
    }

    #[test]
    fn a_file_is_known_by_its_content_alone() {
        let mut headers = HeaderMap::new();
        assert!(answer(&STYLE.href(), &headers).is_some_and(|r| !r.headers().contains_key(CONTENT_ENCODING)));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
        assert!(answer(&PLOT.href(), &headers).is_some_and(|r| r.headers().contains_key(CONTENT_ENCODING)));
        for wrong in ["/assets/style.css", "/assets/", "/assets/../style", "/assets/style.000000000000.css"] {
            assert!(answer(wrong, &headers).is_none(), "{wrong}");
        }
    }
}
