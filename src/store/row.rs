//! Rows as structs: a field stands for the column of its name.

/// Declares a struct and how it is read from a row: each field is the column of its name, or what is made of the row.
/// It panics, as `Row::get` does, where the statement has no such column or one of another type, which a test of the
/// statement sees.
///
/// ```
/// store::row! {
///     /// How a delivery stands.
///     pub struct Standing {
///         pub state: String,
///         pub attempts: i32,
///         pub trust: base::Trust = |row| base::Trust::from_name(row.get("trust")),
///     }
/// }
/// fn standing(row: &tokio_postgres::Row) -> Standing {
///     row.into()
/// }
/// ```
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $of:vis $field:ident: $type:ty $(= $read:expr)?,)*
    }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$doc])* $of $field: $type,)* }
        impl From<&tokio_postgres::Row> for $name {
            fn from(row: &tokio_postgres::Row) -> Self {
                Self { $($field: $crate::row!(@read row, $type, $field $(, $read)?),)* }
            }
        }
    };
    (@read $row:ident, $type:ty, $field:ident) => { $row.get(stringify!($field)) };
    (@read $row:ident, $type:ty, $field:ident, $read:expr) => {{
        let read: fn(&tokio_postgres::Row) -> $type = $read;
        read($row)
    }};
}
