//! Choices in a decision: which row holds, and what the fact is then.

use minijinja::Value;

use super::facts::place_of;
use super::{Deciding, Fault};
use crate::workflow::{Choice, NewValue};

impl<'w> Deciding<'w> {
    /// What a choice comes to. Rows below the one that holds are not looked at.
    pub(super) fn chosen(&mut self, choice: &'w Choice) -> Result<Value, Fault> {
        for (index, row) in choice.rows.iter().enumerate() {
            if let Some(when) = &row.when {
                let held = self.evaluate(when)?;
                if held.is_undefined() {
                    return Err(Fault::new(format!("{} is undefined", place_of(when))));
                }
                if !held.is_true() {
                    continue;
                }
            }
            self.rows.insert(choice, index);
            return match &row.value {
                NewValue::Literal(value) => Ok(value.to_value()),
                NewValue::Expression(value) => self.evaluate(value),
                NewValue::Rendered(text) => self.text(*text).map(Value::from),
            };
        }
        Err(Fault::new(format!("no row of `{}` holds", choice.name)))
    }

    /// Which row of the choice of that name held when it was last asked, in words; none where the name
    /// is not that of a choice.
    pub(super) fn row_of(&self, name: &str) -> Option<String> {
        // Every part of a guard asks, and most workflows have no choices.
        if self.rows.is_empty() {
            return None;
        }
        let visible = self.bound[..self.visible].iter().rev();
        let mut machines = visible.map(|bound| self.workflow.machine(bound.machine));
        let choice = machines.find_map(|it| it.choices.iter().find(|it| &*it.name == name))?;
        let index = *self.rows.get(&std::ptr::from_ref(choice))?;
        Some(format!("row {}, line {}", index + 1, choice.rows[index].line))
    }
}
