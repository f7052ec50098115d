//! Rows as structs: a field stands for the column of its name.

use std::fmt::Display;

use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;

/// What a statement gave, read as what its rows are. It panics as `Row::get` does.
pub trait AsRows<E> {
    /// All of them, as structs that [`row!`](crate::row) declares.
    fn typed<T: for<'a> From<&'a Row>>(self) -> Result<Vec<T>, E>;
    /// The first of them, if there is one.
    fn first_typed<T: for<'a> From<&'a Row>>(self) -> Result<Option<T>, E>;
    /// One column of all.
    fn column<T: for<'a> FromSql<'a>>(self, name: &str) -> Result<Vec<T>, E>;
    /// One column of the first, where it is not null.
    fn cell<T: for<'a> FromSql<'a>>(self, column: impl RowIndex + Display) -> Result<Option<T>, E>;
}

impl<R: IntoIterator<Item = Row>, E> AsRows<E> for Result<R, E> {
    fn typed<T: for<'a> From<&'a Row>>(self) -> Result<Vec<T>, E> {
        self.map(|rows| rows.into_iter().map(|row| T::from(&row)).collect())
    }

    fn first_typed<T: for<'a> From<&'a Row>>(self) -> Result<Option<T>, E> {
        self.map(|rows| rows.into_iter().next().map(|row| T::from(&row)))
    }

    fn column<T: for<'a> FromSql<'a>>(self, name: &str) -> Result<Vec<T>, E> {
        self.map(|rows| rows.into_iter().map(|row| row.get(name)).collect())
    }

    fn cell<T: for<'a> FromSql<'a>>(self, column: impl RowIndex + Display) -> Result<Option<T>, E> {
        self.map(|rows| rows.into_iter().next().and_then(|row| row.get(column)))
    }
}

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
