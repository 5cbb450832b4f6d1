//! Reassembly by the shapes of real bugs. Numbers are those of `field-bugs`, sections those of
//! `provider-formats`.

use super::script::*;
use sluicegate::engine::provider::Provider;
use sluicegate::engine::state::StateLimits;

const STOP: &str = r#"["stop","final","final"]"#;
const END: &str = r#"["end"]"#;
const OPEN: &str = r#"["open",0,{"id":"a","name":"f"}]"#;
const CLOSE: &str = r#"["close",0]"#;

#[test]
fn a_fragment_alone_ends_nothing() {
    check(&[OPEN, r#"["append",0,"{\"x\":1}"]"#, CLOSE, STOP], &[]);
}

#[test]
fn closed_and_ended_well_is_final() {
    check(&[OPEN, r#"["append",0,"{\"x\""]"#, r#"["append",0,":1}"]"#, CLOSE, STOP, END], &[r#"a f final {"x":1}"#]);
}

/// 1: a tool without arguments sends one empty delta.
#[test]
fn empty_delta_leaves_the_placeholder() {
    let open = r#"["open",0,{"id":"a","name":"f","raw":{}}]"#;
    check(&[open, r#"["append",0,""]"#, CLOSE, STOP, END], &["a f final {}"]);
}

/// 2: the whole input stands in the start block and no delta follows.
#[test]
fn whole_input_at_the_start_is_kept() {
    let open = r#"["open",0,{"id":"a","name":"f","raw":{"x": 1}}]"#;
    check(&[open, CLOSE, STOP, END], &[r#"a f final {"x": 1}"#]);
}

#[test]
fn first_delta_replaces_the_start_value() {
    let open = r#"["open",0,{"id":"a","name":"f","raw":{}}]"#;
    check(&[open, r#"["append",0,"{\"x\":"]"#, r#"["append",0,"2}"]"#, CLOSE, STOP, END], &[r#"a f final {"x":2}"#]);
}

/// 8: parallel calls all under index 0.
#[test]
fn same_index_with_a_new_id_is_a_new_call() {
    let script = [
        OPEN,
        r#"["append",0,"{\"c\":1}"]"#,
        r#"["open",0,{"id":"b","name":"f"}]"#,
        r#"["append",0,"{\"c\":2}"]"#,
        STOP,
        END,
    ];
    check_as(Provider::OpenAiChat, &LIMITS, &script, &[r#"a f final {"c":1}"#, r#"b f final {"c":2}"#]);
    // Where items have end markers, one without is not whole.
    check(&script, &[r#"a f item_incomplete {"c":1} !conflict"#, r#"b f item_incomplete {"c":2} !conflict"#]);
}

/// §3.3: the id is repeated, or empty, on every chunk.
#[test]
fn repeated_open_is_the_same_call() {
    let again = r#"["open",0,{"id":"","name":null}]"#;
    let script = [OPEN, r#"["append",0,"{"]"#, OPEN, r#"["append",0,"}"]"#, again, CLOSE, STOP, END];
    check(&script, &["a f final {}"]);
}

/// 10: the whole text comes in `done` only.
#[test]
fn done_only_call_is_whole() {
    let restate = r#"["restate",0,{"text":"{\"x\":1}"}]"#;
    let expected = [r#"a f final {"x":1}"#];
    check(&[OPEN, restate, CLOSE, STOP, END], &expected);
    check(&[OPEN, restate, STOP, END], &expected);
    check(&[r#"["item",0,{"id":"a","name":"f","text":"{\"x\":1}"}]"#, STOP, END], &expected);
    check(&[r#"["listed",4,{"id":"a","name":"f","text":"{\"x\":1}"}]"#, STOP, END], &expected);
}

/// 10: the server corrected its deltas in `done`.
#[test]
fn restated_text_wins_and_the_difference_is_kept() {
    let script = [OPEN, r#"["append",0,"{\"x\":1}"]"#, r#"["restate",0,{"text":"{\"x\":2}"}]"#, CLOSE, STOP, END];
    check(&script, &[r#"a f final {"x":2} !conflict"#]);
    let emptied = [OPEN, r#"["append",0,"{}"]"#, r#"["restate",0,{"text":""}]"#, CLOSE, STOP, END];
    check(&emptied, &["a f final - !conflict"]);
    let silent = [OPEN, r#"["append",0,"{}"]"#, r#"["restate",0,{}]"#, CLOSE, STOP, END];
    check(&silent, &["a f final {}"]);
}

#[test]
fn equal_restatements_are_no_conflict() {
    let done = r#"["restate",0,{"text":"{\"x\":1}"}]"#;
    let item = r#"["item",0,{"id":"a","name":"f","text":"{\"x\":1}"}]"#;
    let listed = r#"["listed",0,{"id":"a","name":"f","text":"{\"x\":1}"}]"#;
    let script = [OPEN, r#"["append",0,"{\"x\":1}"]"#, done, done, item, item, listed, STOP, END];
    check(&script, &[r#"a f final {"x":1}"#]);
}

#[test]
fn two_different_restatements_conflict() {
    let script = [OPEN, r#"["restate",0,{"text":"1"}]"#, r#"["item",0,{"id":"a","name":"f","text":"2"}]"#, STOP, END];
    check(&script, &["a f final 2 !conflict"]);
}

#[test]
fn text_behind_the_end_marker_is_a_conflict() {
    check(&[OPEN, r#"["append",0,"1"]"#, CLOSE, r#"["append",0,"2"]"#, STOP, END], &["a f final 12 !conflict"]);
    let restated = [OPEN, r#"["restate",0,{"text":"1"}]"#, r#"["append",0,"2"]"#, CLOSE, STOP, END];
    check(&restated, &["a f final 1 !conflict"]);
}

/// 11: the proxy sends a new item id with every event.
#[test]
fn rotated_item_ids_do_not_matter() {
    let script = [
        r#"["open",0,{"id":"a","item_id":"i1","name":"f"}]"#,
        r#"["append",0,"{}"]"#,
        r#"["item",0,{"id":"a","item_id":"i2","name":"f","text":"{}"}]"#,
        r#"["listed",0,{"id":"a","item_id":"i3","name":"f","text":"{}"}]"#,
        STOP,
        END,
    ];
    check(&script, &["a f final {}"]);
}

/// §2.3: `call_id` of a client tool search differs between begin and end; the end counts.
#[test]
fn the_items_own_end_corrects_its_id() {
    let script = [
        r#"["open",0,{"id":"x","name":"tool_search","form":"value","raw":{}}]"#,
        r#"["item",0,{"id":"y","name":"tool_search","form":"value","raw":{"q":1}}]"#,
        r#"["listed",0,{"id":"y","name":"tool_search","form":"value","raw":{ "q" : 1 }}]"#,
        STOP,
        END,
    ];
    check(&script, &[r#"y tool_search final { "q" : 1 }"#]);
}

/// §2.4, 12: the final list is empty although items were streamed.
#[test]
fn an_empty_final_list_erases_nothing() {
    check(&[OPEN, r#"["append",0,"{}"]"#, CLOSE, STOP, END], &["a f final {}"]);
}

/// The final list leaves reasoning out, so its places are others.
#[test]
fn a_renumbered_final_list_matches_by_id() {
    let script = [
        r#"["item",1,{"item_id":"ws1","name":"web_search","run":"provider","form":"value","raw":{"q":1}}]"#,
        r#"["item",2,{"id":"a","name":"f","text":"{}"}]"#,
        r#"["listed",0,{"item_id":"ws1","name":"web_search","run":"provider","form":"value","raw":{"q":1}}]"#,
        r#"["listed",1,{"id":"a","name":"f","text":"{}"}]"#,
        STOP,
        END,
    ];
    check(&script, &[r#"ws1 web_search final {"q":1}"#, "a f final {}"]);
}

/// §2.4: `done` comes although the text is cut; the item says so.
#[test]
fn an_incomplete_item_is_never_final() {
    let item = r#"["item",0,{"id":"a","name":"f","text":"{\"x\":48151"},"incomplete"]"#;
    check(&[OPEN, item, STOP, END], &[r#"a f item_incomplete {"x":48151"#]);
    check(&[OPEN, item, r#"["close",0,"complete"]"#, STOP, END], &[r#"a f item_incomplete {"x":48151"#]);
    let cut = r#"["stop","max_tokens","max_tokens"]"#;
    check(&[OPEN, item, cut, END], &[r#"a f max_tokens {"x":48151"#]);
}

/// §2.4: the program that made the call is suspended; its arguments are whole.
#[test]
fn a_suspended_item_is_whole() {
    check(&[r#"["item",0,{"id":"a","name":"f","text":"{}"},"suspended"]"#, STOP, END], &["a f final {}"]);
}

/// 17, 19: the stream dies.
#[test]
fn a_closed_transport_cuts_what_is_open() {
    let open = r#"["open",1,{"id":"b","name":"bash","run":"provider"}]"#;
    let script = [OPEN, r#"["append",0,"{\"x\""]"#, open, r#"["closed"]"#];
    check(&script, &[r#"a f transport_closed {"x""#, "b bash transport_closed -"]);
    check(&[OPEN, CLOSE, STOP, r#"["closed"]"#], &["a f transport_closed -"]);
    check(&[OPEN, CLOSE, STOP, END, r#"["closed"]"#], &["a f final -"]);
}

/// 20, 21: never final on a length stop, even if it parses.
#[test]
fn a_length_stop_cuts_what_parses() {
    let script = [OPEN, r#"["append",0,"{\"path\":\"x\"}"]"#, CLOSE, r#"["stop","max_tokens","max_tokens"]"#, END];
    check(&script, &[r#"a f max_tokens {"path":"x"}"#]);
}

#[test]
fn an_ending_without_a_word_cuts() {
    check(&[OPEN, CLOSE, END], &["a f ended_otherwise -"]);
}

#[test]
fn an_error_ends_the_response() {
    let script = [OPEN, CLOSE, r#"["error","failed"]"#, STOP, END];
    check(&script, &["a f failed -"]);
}

/// §4.5: the gateway retried; indices restart.
#[test]
fn a_second_begin_voids_the_first() {
    let script = [
        r#"["begin","m1"]"#,
        OPEN,
        r#"["append",0,"{\"x\""]"#,
        r#"["begin","m1","again"]"#,
        r#"["open",0,{"id":"b","name":"f"}]"#,
        r#"["append",0,"{}"]"#,
        CLOSE,
        STOP,
        END,
    ];
    check(&script, &[r#"a f superseded {"x""#, "b f final {}"]);
    let spliced = script.map(|l| if l.contains("again") { r#"["begin","m2"]"# } else { l });
    check(&spliced, &[r#"a f superseded {"x""#, "b f final {}"]);
    let repeated = [r#"["begin","m1"]"#, OPEN, r#"["begin","m1"]"#, CLOSE, STOP, END];
    check(&repeated, &["a f final -"]);
}

#[test]
fn a_retry_behind_the_end_starts_over() {
    let run = [r#"["begin","r"]"#, OPEN, r#"["append",0,"1"]"#, CLOSE, STOP, END];
    let twice: Vec<&str> = run.iter().chain(&run).copied().collect();
    check(&twice, &["a f final 1", "a f final 1"]);
}

/// 9: the last chunk repeats the call.
#[test]
fn late_duplicates_change_nothing() {
    let item = r#"["item",0,{"id":"a","name":"f","text":"2"}]"#;
    let listed = r#"["listed",3,{"id":"a","name":"f","text":"2"}]"#;
    let script = [OPEN, r#"["append",0,"1"]"#, CLOSE, STOP, END, r#"["append",0,"2"]"#, OPEN, item, listed, CLOSE, END];
    check(&script, &["a f final 1"]);
}

/// 13: fragments without an owner.
#[test]
fn orphan_fragments_end_as_orphans() {
    check(&[r#"["append",0,"{}"]"#, CLOSE, STOP, END], &["- - orphan {}"]);
    check(&[r#"["append",0,"{"]"#, OPEN, r#"["append",0,"}"]"#, CLOSE, STOP, END], &["a f orphan {}"]);
    check(&[r#"["append",0,""]"#, STOP, END], &[]);
    check(&[OPEN, CLOSE, STOP, END, r#"["append",5,"x"]"#, r#"["append",5,"y"]"#], &["a f final -", "- - orphan -"]);
}

/// A consumer that starts in the middle sees the rest of the deltas, then the whole item.
#[test]
fn a_whole_item_adopts_orphan_fragments() {
    let script = [r#"["append",0,"1}"]"#, r#"["item",0,{"id":"a","name":"f","text":"{\"x\":1}"}]"#, STOP, END];
    check(&script, &[r#"a f final {"x":1}"#]);
}

/// §4.4, 26: a server call stays open across `pause_turn`; its result comes in the next response.
#[test]
fn a_server_call_is_carried_to_its_result() {
    let call = r#"["open",0,{"id":"s","name":"web_search","run":"provider"}]"#;
    let pause = r#"["stop","paused","carry"]"#;
    let begun = [call, r#"["append",0,"{}"]"#, CLOSE, r#"["open",1,{"id":"a","name":"f"}]"#, pause, END];
    let closed = [r#"["closed"]"#, r#"["exchange",1]"#];
    let rest = [r#"["begin","r2"]"#, r#"["answered","s"]"#, r#"["stop","final","final"]"#, END];
    let script: Vec<&str> = begun.iter().chain(&closed).chain(&rest).copied().collect();
    check(&script, &["a f paused -", "s web_search final {}"]);
}

#[test]
fn a_server_result_makes_its_call_final_at_once() {
    let call = r#"["open",0,{"id":"s","name":"web_search","run":"provider","raw":{}}]"#;
    let cut = r#"["stop","max_tokens","max_tokens"]"#;
    check(&[call, CLOSE, r#"["answered","s"]"#, cut, END], &["s web_search final {}"]);
    check(&[call, r#"["answered","s"]"#, cut, END], &["s web_search max_tokens {}"]);
    let client = r#"["open",0,{"id":"s","name":"web_search"}]"#;
    check(&[client, CLOSE, r#"["answered","s"]"#, cut, END], &["s web_search max_tokens -"]);
}

#[test]
fn executors_may_end_differently() {
    let server = r#"["item",1,{"id":"s","name":"g","run":"provider","text":"{}"}]"#;
    let script = [OPEN, CLOSE, server, r#"["stop","ended_otherwise","final"]"#, END];
    check(&script, &["a f ended_otherwise -", "s g final {}"]);
}

#[test]
fn choices_end_by_their_own_word() {
    let script = [
        r#"["open",[0,1],{"id":"b","name":"f"}]"#,
        r#"["open",[0,0],{"id":"a","name":"f"}]"#,
        r#"["open",[0,2],{"id":"c","name":"f"}]"#,
        r#"["stop","max_tokens","max_tokens",1]"#,
        r#"["stop","final","final",0]"#,
        END,
    ];
    let expected = ["a f final -", "b f max_tokens -", "c f ended_otherwise -"];
    check_as(Provider::OpenAiChat, &LIMITS, &script, &expected);
}

#[test]
fn calls_end_in_slot_order() {
    let script = [
        r#"["item",2,{"id":"c","name":"f","text":"3"}]"#,
        r#"["item",0,{"id":"a","name":"f","text":"1"}]"#,
        r#"["item",1,{"id":"b","name":"f","text":"2"}]"#,
        STOP,
        END,
    ];
    check(&script, &["a f final 1", "b f final 2", "c f final 3"]);
}

/// §2.2: shell commands stream by `command_index`; the item's action is what counts.
#[test]
fn previews_are_not_the_arguments() {
    let open = r#"["open",0,{"id":"a","name":"shell","form":"value","raw":{"commands":[]}}]"#;
    let previews = [r#"["append",0,"ls"]"#, r#"["append",0,"pwd",1]"#, r#"["restate",0,{"text":"pwd"}]"#];
    let item = r#"["item",0,{"id":"a","name":"shell","form":"value","raw":{"commands":["ls","pwd"]}}]"#;
    let whole: Vec<&str> = [open].iter().chain(&previews).chain(&[item, STOP, END]).copied().collect();
    check(&whole, &[r#"a shell final {"commands":["ls","pwd"]}"#]);
    // Without the item the action is not known, whatever the ending says.
    let never: Vec<&str> = [open].iter().chain(&previews).chain(&[CLOSE, STOP, END]).copied().collect();
    check(&never, &[r#"a shell item_incomplete {"commands":[]}"#]);
}

/// 14, §4.2: a slice may end inside a surrogate pair.
#[test]
fn halves_of_a_surrogate_pair_are_joined() {
    let script =
        [OPEN, r#"["append",0,"\"\ud83d"]"#, r#"["append",0,""]"#, r#"["append",0,"\ude00\""]"#, CLOSE, STOP, END];
    check(&script, &["a f final \"\u{1F600}\""]);
    let restated = [
        OPEN,
        r#"["append",0,"\ud83d"]"#,
        r#"["append",0,"\ude00"]"#,
        r#"["restate",0,{"text":"😀"}]"#,
        CLOSE,
        STOP,
        END,
    ];
    check(&restated, &["a f final \u{1F600}"]);
}

/// A client tool search whose arguments come as a string after all.
#[test]
fn an_items_text_is_its_value() {
    let item = r#"["item",0,{"id":"a","name":"tool_search","form":"value","text":"{\"q\":1}"}]"#;
    check(&[item, STOP, END], &[r#"a tool_search final {"q":1}"#]);
}

#[test]
fn a_call_over_its_size_is_cut_at_once() {
    let limits = StateLimits { call_bytes: 8, ..LIMITS };
    let script = [OPEN, r#"["append",0,"12345"]"#, r#"["append",0,"6789"]"#, r#"["append",0,"x"]"#, CLOSE, STOP, END];
    check_as(Provider::OpenAiResponses, &limits, &script, &["a f limit -"]);
    let restated = [OPEN, r#"["restate",0,{"text":"123456789"}]"#, STOP, END];
    check_as(Provider::OpenAiResponses, &limits, &restated, &["a f limit -"]);
    let opened = [r#"["open",0,{"id":"a","name":"f","raw":{"x":"123456789"}}]"#, STOP, END];
    check_as(Provider::OpenAiResponses, &limits, &opened, &["a f limit -"]);
}

#[test]
fn calls_over_their_number_are_cut_at_once() {
    let limits = StateLimits { open_calls_per_response: 2, open_calls_per_conversation: 3, ..LIMITS };
    let open = |slot: u32| format!(r#"["open",{slot},{{"id":"c{slot}","name":"f"}}]"#);
    let lines = [open(0), open(1), open(2), r#"["exchange",1]"#.to_owned(), open(3), open(4)];
    let script: Vec<&str> = lines.iter().map(String::as_str).collect();
    check_as(Provider::OpenAiResponses, &limits, &script, &["c2 f limit -", "c4 f limit -"]);
}

#[test]
fn a_literal_null_stands() {
    check(&[OPEN, r#"["append",0,"null"]"#, CLOSE, STOP, END], &["a f final null"]);
}
