//! What tests with real clients share: an API whose model is a script, clients from npm, processes that
//! do not outlive a test, and a project in a folder of its own.

pub mod api;
pub mod hooks;
pub mod npm;
pub mod picture;
pub mod running;
pub mod scene;
pub mod terminal;
