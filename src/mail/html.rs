//! What a person sees of HTML.
//!
//! Whoever sends a letter may write into it what no person sees and a model reads. So a document is read as a mail
//! reader reads it: built to a tree as browsers do it, styled by its sheets and attributes, and written down as far
//! as it is seen. What can't be known is taken for hidden if it could hide, as far as no usual letter suffers from
//! it.
//!
//! What is not looked at: where boxes stand to each other. Text that another box covers, or that is cut off at the
//! edge of a box of some size, counts as seen.

mod cascade;
mod color;
mod css;
mod gate;
mod media;
mod page;
mod select;
mod sheet;
mod style;
mod tree;
mod values;
mod walk;

/// What is seen, and how much is not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// Quoted blocks stand behind `> `.
    pub text: String,
    /// Characters of text that a person would not see.
    pub hidden: usize,
}

/// The text of a letter's HTML as a person sees it; at most `most` bytes.
///
/// Images are not loaded, no script runs, the window is light and as wide as a desk's. Ends in time that grows with the
/// length of the document, whatever it holds.
pub fn shown(html: &str, most: usize) -> Shown {
    let tree = gate::parse(html);
    let (text, hidden) = walk::walk(&tree, most);
    Shown { text, hidden: hidden + tree.hidden }
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
