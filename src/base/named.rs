//! Enums whose values are words.

/// Gives an enum that derives strum's `IntoStaticStr` its `as_str`; with `from_name` and `EnumString` also the way back.
///
/// ```ignore
/// base::named!(Status, from_name);
/// assert_eq!(Status::from_name(Status::Pending.as_str()), Some(Status::Pending));
/// ```
#[macro_export]
macro_rules! named {
    ($name:ident) => {
        impl $name {
            /// The name under which rows, tools and people have it.
            pub fn as_str(self) -> &'static str {
                self.into()
            }
        }
    };
    ($name:ident, from_name) => {
        $crate::named!($name);
        impl $name {
            /// Reads the name back; `None`: nothing is called so.
            pub fn from_name(name: &str) -> Option<Self> {
                name.parse().ok()
            }
        }
    };
}
