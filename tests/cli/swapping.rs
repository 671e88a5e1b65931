//! Policies that are replaced while a host serves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::host::Host;
use super::shop::{Shop, id, letter, lines};
use crate::policy::guests::{PASSES_ON, POLICY, WITH_FALLBACK, component, component_of_version, core, hostile};

/// A policy whose rule has this name, of five letters.
pub fn named(rule: &str) -> Vec<u8> {
    assert_eq!(rule.len(), 5);
    component(POLICY, &core("", "", "").replace("Guest", rule))
}

/// As `sha256sum` prints it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts a file in the place of another at once, as a deployment does.
pub fn renamed_over(path: &Path, content: impl AsRef<[u8]>) {
    let beside = path.with_extension("new");
    fs::write(&beside, content).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// A host that serves with the policy file `policies/rules.wasm`.
struct Swapping {
    shop: Shop,
    host: Host,
    file: PathBuf,
}

impl Swapping {
    fn with(first: impl AsRef<[u8]>) -> Self {
        let shop = Shop::unmigrated();
        let folder = shop.path().join("policies");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("rules.wasm");
        fs::write(&file, first).unwrap();
        Self::started(shop, file)
    }

    fn started(shop: Shop, file: PathBuf) -> Self {
        let host = Host::start(&shop, &["--policy", file.to_str().unwrap(), "--generation", "g"]);
        Self { shop, host, file }
    }

    /// Waits until this component is in use.
    fn is_in_use(&mut self, component: &[u8]) {
        let told = self.host.told("policy loaded");
        let ready = self.host.ready();
        assert_eq!(ready["policies"][0]["sha256"], sha256(component).as_str(), "{ready}");
        assert_eq!(ready["policies"][0]["digest"], told["digest"]);
        assert_eq!(ready["rejected"], Value::Null, "{ready}");
    }

    /// Waits until a file is rejected for a reason with these words, while this component serves on.
    fn is_rejected(&mut self, words: &str, in_use: &[u8]) -> Value {
        self.host.told("policy rejected; the last good one serves on");
        let ready = self.host.ready();
        let rejected = ready["rejected"].clone();
        assert!(rejected["reason"].as_str().unwrap().contains(words), "{rejected}");
        assert!(rejected["at"].is_string());
        assert_eq!(ready["policies"][0]["sha256"], sha256(in_use).as_str());
        assert_eq!((&ready["status"], self.host.get("/readyz").0), (&json!("ready"), 200));
        rejected
    }
}

#[test]
fn a_file_renamed_over_the_policy_is_in_use_and_a_broken_one_is_told() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    renamed_over(&swap.file, &second);
    swap.is_in_use(&second);

    let broken = &second[..second.len() / 2];
    renamed_over(&swap.file, broken);
    let rejected = swap.is_rejected("rules.wasm", &second);
    assert_eq!(rejected["digest"], sha256(broken).as_str());
    let metrics = swap.host.get("/metrics").1;
    assert!(metrics.contains("reprieve_policy_reloads_total{outcome=\"loaded\"} 1"), "{metrics}");
    assert!(metrics.contains("reprieve_policy_reloads_total{outcome=\"rejected\"} 1"), "{metrics}");
    let gauge = format!("reprieve_policy_rejected_timestamp_seconds{{digest=\"{}\"}}", sha256(broken));
    assert!(metrics.contains(&gauge), "{metrics}");

    renamed_over(&swap.file, &first);
    swap.is_in_use(&first);
    assert!(!swap.host.get("/metrics").1.contains("reprieve_policy_rejected_timestamp_seconds{"));
    swap.shop.import(&lines(&[letter(1, json!({}))])).exits(0);
    swap.host.told("re-emitted");
    assert_eq!(swap.shop.show(&id(1))["decisions"][0]["policy_digest"], swap.host.ready()["policies"][0]["digest"]);
}

#[test]
fn what_was_rejected_is_forgotten_when_the_good_file_is_back() {
    let first = named("First");
    let mut swap = Swapping::with(&first);
    renamed_over(&swap.file, "no component");
    swap.is_rejected("not a WebAssembly component", &first);
    renamed_over(&swap.file, &first);
    swap.host.told("the policy's files hold what is in use");
    assert_eq!(swap.host.ready()["rejected"], Value::Null);
}

#[test]
fn a_link_swapped_as_a_mounted_configuration_does_it_is_followed() {
    let (first, second, third) = (named("First"), named("Secnd"), named("Third"));
    let shop = Shop::unmigrated();
    let mount = shop.path().join("mount");
    let mounted = |name: &str, content: &[u8]| {
        fs::create_dir_all(mount.join(name)).unwrap();
        fs::write(mount.join(name).join("rules.wasm"), content).unwrap();
        symlink(name, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    mounted("..2026_01", &first);
    let file = mount.join("rules.wasm");
    symlink("..data/rules.wasm", &file).unwrap();
    let mut swap = Swapping::started(shop, file);
    for (former, name, content) in [("..2026_01", "..2026_02", &second), ("..2026_02", "..2026_03", &third)] {
        mounted(name, content);
        fs::remove_dir_all(mount.join(former)).unwrap();
        swap.is_in_use(content);
    }
}

#[test]
fn a_file_written_in_two_steps_is_taken_when_it_is_whole() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let mut file = fs::File::create(&swap.file).unwrap();
    std::io::Write::write_all(&mut file, &second[..100]).unwrap();
    // The rest comes before the second look, or after it: either way the first half changes nothing.
    std::io::Write::write_all(&mut file, &second[100..]).unwrap();
    drop(file);
    swap.is_in_use(&second);
}

#[test]
fn a_half_that_stays_a_half_is_rejected_until_the_rest_comes() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let mut file = fs::File::create(&swap.file).unwrap();
    std::io::Write::write_all(&mut file, &second[..100]).unwrap();
    swap.is_rejected("rules.wasm", &first);
    std::io::Write::write_all(&mut file, &second[100..]).unwrap();
    swap.is_in_use(&second);
}

#[test]
fn a_file_copied_over_the_policy_is_in_use() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let other = swap.shop.path().join("other.wasm");
    fs::write(&other, &second).unwrap();
    fs::copy(&other, &swap.file).unwrap();
    swap.is_in_use(&second);
}

#[test]
fn a_policy_that_is_deleted_serves_on_until_it_is_made_again() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    fs::remove_file(&swap.file).unwrap();
    let rejected = swap.is_rejected("cannot read policy", &first);
    assert_eq!(rejected["digest"], Value::Null);
    fs::write(&swap.file, &second).unwrap();
    swap.is_in_use(&second);
}

#[test]
fn a_whole_folder_may_be_replaced() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let folder = swap.file.parent().unwrap();
    fs::rename(folder, swap.shop.path().join("former")).unwrap();
    swap.is_rejected("cannot read policy", &first);
    let folder = swap.shop.path().join("policies");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("rules.wasm"), &second).unwrap();
    swap.is_in_use(&second);
    renamed_over(&swap.file, &first);
    swap.is_in_use(&first);
}

#[test]
fn what_can_be_no_policy_is_rejected_and_the_next_good_file_is_taken() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let file = swap.file.clone();

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    swap.is_rejected("no regular file", &first);
    fs::remove_dir(&file).unwrap();

    // Two gigabytes of nothing.
    fs::File::create(&file).unwrap().set_len(2 << 30).unwrap();
    let rejected = loop {
        let rejected = swap.host.told("policy rejected; the last good one serves on");
        if !rejected["reason"].as_str().unwrap().contains("cannot read") {
            break rejected;
        }
    };
    assert!(rejected["reason"].as_str().unwrap().contains("larger than 128 MiB"), "{rejected}");

    renamed_over(&file, component_of_version(POLICY, &core("", "", ""), "0.2.0"));
    swap.is_rejected("0.2.0", &first);
    renamed_over(&file, "");
    swap.is_rejected("rules.wasm", &first);
    let always = core("", "", "").replace("(i32.const 64))", "unreachable)");
    renamed_over(&file, component(POLICY, &always));
    swap.is_rejected("while it was tried", &first);
    let start = "(func $forever (loop $l (br $l))) (start $forever)";
    renamed_over(&file, component(POLICY, &core("", start, "")));
    swap.is_rejected("does not start", &first);

    renamed_over(&file, &second);
    swap.is_in_use(&second);
}

#[test]
fn what_can_be_no_configuration_is_rejected_and_holds_nothing_up() {
    let shop = Shop::unmigrated();
    let config = shop.path().join("reprieve.toml");
    fs::write(&config, "").unwrap();
    let mut host = Host::start(&shop, &["--config", "reprieve.toml", "--generation", "g"]);
    fs::remove_file(&config).unwrap();
    host.told("policy rejected; the last good one serves on");
    assert!(std::process::Command::new("mkfifo").arg(&config).status().unwrap().success());
    host.signal("HUP");
    host.told("told to reload by SIGHUP");
    fs::remove_file(&config).unwrap();
    fs::File::create(&config).unwrap().set_len(2 << 30).unwrap();
    let mut rejected = host.told("policy rejected; the last good one serves on");
    while !rejected["reason"].as_str().unwrap().contains("larger than 16 MiB") {
        rejected = host.told("policy rejected; the last good one serves on");
    }
    fs::remove_file(&config).unwrap();
    symlink("/dev/zero", &config).unwrap();
    host.signal("HUP");
    host.told("told to reload by SIGHUP");
    assert_eq!(host.get("/healthz").0, 200);
    assert_eq!(host.stop().code(), Some(0));
}

#[test]
fn a_large_component_that_is_replaced_while_it_compiles_is_never_in_use() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    let large = fs::read(crate::policy::example::Language::Python.component()).unwrap();
    renamed_over(&swap.file, large);
    swap.host.signal("HUP");
    swap.host.told("told to reload by SIGHUP");
    renamed_over(&swap.file, &second);
    swap.is_in_use(&second);
}

#[test]
fn sighup_reloads_and_says_so_also_when_nothing_has_changed() {
    let (first, second) = (named("First"), named("Secnd"));
    let mut swap = Swapping::with(&first);
    swap.host.signal("HUP");
    swap.host.told("the policy's files hold what is in use");
    renamed_over(&swap.file, "broken");
    swap.is_rejected("rules.wasm", &first);
    swap.host.signal("HUP");
    swap.is_rejected("rules.wasm", &first);
    renamed_over(&swap.file, &second);
    swap.is_in_use(&second);
}

#[test]
fn each_member_of_a_chain_is_swapped_alone_and_so_are_its_settings() {
    let shop = Shop::unmigrated();
    let at = |name: &str| shop.path().join(name);
    // Each differs from its other version by data that nothing reads.
    let passing = |mark: &str| {
        let data = format!("(memory (export \"memory\") 2) (data (i32.const 900) \"{mark}\")");
        component(WITH_FALLBACK, &PASSES_ON.replace("(memory (export \"memory\") 2)", &data))
    };
    fs::write(at("one.wasm"), passing("a")).unwrap();
    fs::write(at("two.wasm"), passing("a")).unwrap();
    fs::write(at("matrix.toml"), "[policy_by_reason.Throttled]\nname = 'Former'\n").unwrap();
    let chain = "[[policy.chain]]\npath = 'one.wasm'\n[[policy.chain]]\npath = 'two.wasm'\n\
        [[policy.chain]]\npath = 'builtin:default-matrix'\nsettings = 'matrix.toml'\n";
    fs::write(at("reprieve.toml"), chain).unwrap();
    let mut host = Host::start(&shop, &["--config", "reprieve.toml", "--generation", "g"]);
    let mut since = host.ready()["policies"].clone();
    assert_eq!(since.as_array().unwrap().len(), 3);
    let mut swapped = |host: &mut Host, member: usize| {
        host.told("policy loaded");
        let now = host.ready()["policies"].clone();
        for place in 0..3 {
            // A digest covers the chain behind it: those before the swapped one are other policies, too.
            let same = now[place] == since[place];
            assert_eq!(same, place > member, "member {place} of {now}, before {since}");
            let same_file = now[place]["sha256"] == since[place]["sha256"];
            assert_eq!(same_file, place != member || member == 2, "member {place}");
        }
        since = now;
    };

    renamed_over(&at("one.wasm"), passing("b"));
    swapped(&mut host, 0);
    renamed_over(&at("two.wasm"), passing("b"));
    swapped(&mut host, 1);
    renamed_over(&at("matrix.toml"), "[policy_by_reason.Throttled]\nname = 'Latter'\n");
    swapped(&mut host, 2);

    renamed_over(&at("matrix.toml"), "[policy_by_reason.Throttled]\nmax_recovery_attempts = 'many'\n");
    let rejected = host.told("policy rejected; the last good one serves on");
    let reason = rejected["reason"].as_str().unwrap();
    assert!(reason.contains("default-matrix") && reason.contains("max_recovery_attempts"), "{reason}");
    renamed_over(&at("matrix.toml"), "[policy_by_reason.Throttled\n");
    let rejected = host.told("policy rejected; the last good one serves on");
    let reason = rejected["reason"].as_str().unwrap();
    assert!(reason.contains("matrix.toml") && reason.contains("line 1"), "{reason}");

    shop.import(&lines(&[letter(1, json!({}))])).exits(0);
    host.told("re-emitted");
    assert_eq!(shop.show(&id(1))["decisions"][0]["rule"]["name"], "Latter");
}

#[test]
fn the_chain_in_the_configuration_is_taken_over_and_the_rest_of_it_needs_a_restart() {
    let shop = Shop::unmigrated();
    let config = shop.path().join("reprieve.toml");
    fs::write(shop.path().join("rules.wasm"), named("First")).unwrap();
    fs::write(&config, "").unwrap();
    let mut host = Host::start(&shop, &["--config", "reprieve.toml", "--generation", "g"]);

    renamed_over(&config, "[policy]\npath = 'rules.wasm'\n");
    assert_eq!(host.told("policy loaded")["policy"], "rules");
    renamed_over(&config, "[policy]\npath = 'rules.wasm'\n[recovery]\nlanes = 4\n");
    host.told("the configuration changed beyond the chain of policies and their settings: restart for that");
    renamed_over(&config, "[policy]\npaht = 'rules.wasm'\n");
    let rejected = host.told("policy rejected; the last good one serves on");
    assert!(rejected["reason"].as_str().unwrap().contains("policy.path"), "{rejected}");
    assert_eq!(host.ready()["rejected"]["reason"], rejected["reason"]);
    // Its files are watched all the same, and each refusal stands until it is mended.
    let rules = shop.path().join("rules.wasm");
    let second = named("Secnd");
    renamed_over(&rules, &second);
    host.told("policy loaded");
    let ready = host.ready();
    assert_eq!(ready["policies"][0]["sha256"], sha256(&second).as_str());
    assert!(ready["rejected"]["reason"].as_str().unwrap().contains("policy.path"), "{ready}");
    renamed_over(&rules, "broken");
    host.told("policy rejected; the last good one serves on");
    renamed_over(&config, "[policy]\npath = 'rules.wasm'\n");
    host.told("the configuration can be read again");
    assert_eq!(host.ready()["rejected"]["digest"], sha256(b"broken").as_str());
    renamed_over(&rules, &second);
    host.told("the policy's files hold what is in use");
    assert_eq!(host.ready()["rejected"], Value::Null);
}

#[test]
fn rows_that_the_former_policy_put_off_meet_the_new_one_at_once() {
    let mut swap = Swapping::with(crate::policy::guests::refusing());
    let refused = letter(1, json!({"message_type": "Xylophone"}));
    swap.shop.import(&lines(&[refused, letter(2, json!({}))])).exits(0);
    swap.host.told("re-emitted");
    let row = swap.shop.show(&id(1));
    assert_eq!((&row["deferral"], &row["recovery_status"]), (&json!("skip"), &json!("Pending")));

    renamed_over(&swap.file, named("Secnd"));
    swap.host.told("re-emitted");
    assert_eq!(swap.shop.show(&id(1))["recovery_status"], "Recovered");
}

#[test]
fn a_scan_with_another_policy_meets_what_the_former_one_put_off() {
    let shop = Shop::with(&[letter(1, json!({"message_type": "Xylophone"}))]);
    fs::write(shop.path().join("refusing.wasm"), crate::policy::guests::refusing()).unwrap();
    fs::write(shop.path().join("other.wasm"), named("Other")).unwrap();
    let scan = |policy: &str| shop.run(&["scan", "--policy", policy, "--json"]).exits(0).json();
    assert_eq!(scan("refusing.wasm")["skipped"], 1);
    assert_eq!(scan("refusing.wasm")["scanned"], 0, "it rests");
    assert_eq!(scan("other.wasm")["recovered"], 1);
}

#[test]
fn a_policy_that_fails_on_some_rows_is_mended_by_the_next_one() {
    let mut swap = Swapping::with(hostile("unreachable"));
    let bad = letter(1, json!({"message_type": "Xylophone"}));
    swap.shop.import(&lines(&[bad, letter(2, json!({}))])).exits(0);
    swap.host.told("re-emitted");
    let row = swap.shop.show(&id(1));
    assert_eq!((&row["deferral"], &row["policy_errors"]), (&json!("policy-error"), &json!(1)));
    renamed_over(&swap.file, named("Secnd"));
    swap.host.told("re-emitted");
    let row = swap.shop.show(&id(1));
    assert_eq!((&row["recovery_status"], &row["policy_errors"]), (&json!("Recovered"), &json!(0)));
}

#[test]
fn a_running_host_tells_its_policies_and_what_it_rejected() {
    let first = named("First");
    let mut swap = Swapping::with(&first);
    let address = swap.host.address().to_owned();
    let status = || swap.shop.run(&["policy", "status", "--address", &address, "--json"]).exits(0).json();
    let told = status();
    assert_eq!((&told["policies"][0]["name"], &told["rejected"]), (&json!("rules"), &Value::Null));
    assert_eq!(told["policies"][0]["sha256"], sha256(&first).as_str());
    renamed_over(&swap.file, "broken");
    swap.host.told("policy rejected; the last good one serves on");
    assert_eq!(status()["rejected"]["digest"], sha256(b"broken").as_str());
    let text = swap.shop.run(&["policy", "status", "--address", &address]).exits(0).stdout;
    assert!(text.contains("rules (asked first)") && text.contains(&sha256(b"broken")), "{text}");
    swap.host.stop();
    let gone = swap.shop.run(&["policy", "status", "--address", &address]).exits(3);
    assert!(gone.stderr.contains(&address) && gone.stderr.contains("[http] listen"), "{}", gone.stderr);
}
