//! Linking: what guests import, and how a chain becomes one instance.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Engine, Store, StoreContextMut};

use super::bindings::exports::reprieve::policy::recovery::Guest;
use super::bindings::reprieve::policy::{host, types};
use super::state::{GuestState, Running};

const RECOVERY: &str = "reprieve:policy/recovery@0.1.0";

/// Everything that a guest may import. One linker serves all members of all chains: who asks and who is next, a
/// store's state knows.
///
/// # Errors
///
/// Two definitions of one name.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    host::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    let mut recovery = linker.instance(RECOVERY)?;
    recovery.func_wrap_async("get-policy", |mut store, (entry,): (types::DeadLetter,)| {
        Box::new(async move {
            let (next, asker) = enter_next(&mut store)?;
            let answer = next.call_get_policy(&mut store, &entry).await?;
            store.data_mut().current = asker;
            Ok((answer,))
        })
    })?;
    recovery.func_wrap_async("get-stream-mode", |mut store, (entry,): (types::DeadLetter,)| {
        Box::new(async move {
            let (next, asker) = enter_next(&mut store)?;
            let answer = next.call_get_stream_mode(&mut store, &entry).await?;
            store.data_mut().current = asker;
            Ok((answer,))
        })
    })?;
    recovery.func_wrap_async("should-recover", |mut store, (entry,): (types::DeadLetter,)| {
        Box::new(async move {
            let (next, asker) = enter_next(&mut store)?;
            let answer = next.call_should_recover(&mut store, &entry).await?;
            store.data_mut().current = asker;
            Ok((answer,))
        })
    })?;
    Ok(linker)
}

/// Passes control to the next member. It is not given back when that one fails: so the failure is blamed on it.
fn enter_next(store: &mut StoreContextMut<'_, GuestState>) -> wasmtime::Result<(Arc<Guest>, usize)> {
    let state = store.data_mut();
    state.pass_on_output();
    let asker = state.current;
    let next = asker.saturating_add(1);
    let running = state.running.get(next).and_then(Option::as_ref);
    let guest = running
        .map(|running| Arc::clone(&running.recovery))
        .ok_or_else(|| wasmtime::format_err!("asks the next policy before there is one"))?;
    state.current = next;
    Ok((guest, asker))
}

/// Instantiates a chain as far as questions can get, the last one first, so that each finds the next one ready.
///
/// # Errors
///
/// The state's current member does not start.
pub async fn instantiate(store: &mut Store<GuestState>) -> wasmtime::Result<Arc<Guest>> {
    let members = Arc::clone(&store.data().members);
    let reached = members.iter().take_while(|member| member.shape.has_fallback()).count();
    let mut first = None;
    for (place, member) in members.iter().enumerate().take(reached + 1).rev() {
        store.data_mut().current = place;
        let instance = member.linked.instantiate_async(&mut *store).await?;
        let recovery = Arc::new(member.recovery.load(&mut *store, &instance)?);
        first = Some(Arc::clone(&recovery));
        if let Some(slot) = store.data_mut().running.get_mut(place) {
            *slot = Some(Running { instance, recovery });
        }
    }
    store.data_mut().pass_on_output();
    first.ok_or_else(|| wasmtime::format_err!("a chain without members"))
}
