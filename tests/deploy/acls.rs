//! The page of permissions is made from the table that `topics plan` prints.

use crate::files::fresh;
use sluicegate::runtime::acls::{self, Resource, Role};
use sluicegate::runtime::settings::{Settings, state_topic};

#[test]
fn the_page_is_fresh() {
    fresh("deploy/acls.md", &acls::page());
}

/// What a gate believes, only the service may write; what a reviewer decides, only reviewers.
#[test]
fn no_role_writes_what_another_vouches_for() {
    let settings = Settings::new("", "g", &["a", "b"]);
    let mut outputs: Vec<String> = settings.outputs().map(str::to_owned).to_vec();
    outputs.extend(settings.inputs.iter().map(|input| state_topic(input)));
    for grant in acls::grants(&settings) {
        let Resource::Topics(names) = &grant.on else {
            assert_eq!(grant.role, Role::Service);
            continue;
        };
        let writes = grant.operations.contains(&"Write");
        for name in names.iter().filter(|_| writes) {
            let owner = match name {
                name if outputs.contains(name) => Role::Service,
                name if settings.inputs.contains(name) => Role::Producer,
                _ => Role::Reviewer,
            };
            assert_eq!(grant.role, owner, "{name}");
        }
    }
}

/// Every topic that there is stands in the list, and each role has a line.
#[test]
fn the_list_is_whole() {
    let settings = Settings::new("", "g", &["a"]);
    let text = acls::listed(&settings);
    let topics = settings.outputs().map(str::to_owned).into_iter();
    let topics = topics.chain([state_topic("a"), settings.pins.clone(), settings.pins_audit.clone()]);
    for topic in topics {
        assert!(text.contains(&topic), "{topic}\n{text}");
    }
    for role in Role::ALL {
        assert!(text.lines().any(|line| line.starts_with(role.name())), "{}", role.name());
    }
}
