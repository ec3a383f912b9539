//! What a definition says must hold of every run.

use super::Resolver;
use crate::definition::PropertyText;
use crate::workflow::{Claim, Property};

impl Resolver<'_> {
    pub(super) fn properties(&mut self, written: &[PropertyText]) -> Vec<Property> {
        let mut found: Vec<Property> = Vec::new();
        for text in written {
            let (name, span) = (text.name.get_ref(), text.name.span());
            // What a run has come through is remembered by the property's name.
            if found.iter().any(|known| known.name == *name) {
                let message = format!("there are two properties called {name:?}");
                self.error(span.clone(), "name", message);
            }
            let claim = match (&text.never, &text.always, &text.through) {
                (Some(it), None, None) => Claim::Never(self.expression(it)),
                (None, Some(it), None) => Claim::Always(self.expression(it)),
                (None, None, Some(through)) => {
                    let (to, pass) = (&through.to, &through.pass);
                    Claim::Through { to: self.expression(to), pass: self.expression(pass) }
                }
                _ => {
                    let message = "a property has one of `never`, `always` and `through`";
                    self.error(span, "shape", message);
                    continue;
                }
            };
            found.push(Property { name: name.clone(), claim, span });
        }
        found
    }
}
