#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use super::*;

const DOTNET: &str = "System.InvalidOperationException: Order 4711 is closed
   at Shop.Orders.Order.Close(DateTime at) in /src/Shop.Orders/Order.cs:line 88
   at Shop.Orders.OrderHandler.<HandleAsync>d__5.MoveNext() in /src/Shop.Orders/OrderHandler.cs:line 41
--- End of stack trace from previous location ---
   at System.Threading.Tasks.Task.ThrowIfExceptional(Boolean include)
   at Whizbang.Inbox.Dispatcher.DispatchAsync(Envelope envelope) in /whizbang/Dispatcher.cs:line 12
   at Shop.Program.Main(String[] args)";

const JAVA: &str = "com.shop.billing.PaymentException: card 4242 declined
\tat com.shop.billing.Gateway.charge(Gateway.java:77)
\tat java.base/java.util.concurrent.FutureTask.run(FutureTask.java:317)
\tat app//com.shop.billing.Payments.lambda$pay$3(Payments.java:31)
Caused by: java.net.SocketTimeoutException: Read timed out
\tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)
\t... 12 more";

const PYTHON_TEXT: &str = "Traceback (most recent call last):
  File \"/app/shop/stock.py\", line 20, in reserve
    row = rows[0]
          ~~~~^^^
IndexError: list index out of range

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File \"/usr/local/lib/python3.12/asyncio/runners.py\", line 194, in run
    return runner.run(main)
  File \"/app/shop/worker.py\", line 55, in handle
    stock.reserve(order)
  File \"/app/shop/stock.py\", line 22, in reserve
    raise OutOfStock(sku) from e
shop.errors.OutOfStock: sku A-17 has 0 left";

const GO_TEXT: &str = "panic: runtime error: index out of range [5] with length 3 [recovered]

goroutine 34 [running]:
panic({0x6d3a20?, 0xc0000b2048?})
\t/usr/local/go/src/runtime/panic.go:770 +0x132
github.com/acme/shop/stock.(*Ledger).Apply(0xc0000b4000, {0x7f1, 0x2})
\t/app/stock/ledger.go:61 +0x1d4
main.main()
\t/app/main.go:12 +0x2f
created by main.main in goroutine 1
\t/app/main.go:9 +0x55

goroutine 1 [select]:
main.wait()
\t/app/wait.go:3 +0x11";

const NODE: &str = "/app/src/prices.js:12
    throw new PriceError(`no price for ${sku}`)
    ^

PriceError: no price for X-1
    at Prices.find (/app/src/prices.js:12:11)
    at /app/src/handlers/order.js:40:9
    at new Promise (<anonymous>)
    at async Consumer.run (file:///app/src/consumer.mjs:8:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)
    at Layer.handle (/app/node_modules/express/lib/router/layer.js:95:5)";

#[test]
fn dotnet_counts_by_type_and_own_frames() {
    assert_eq!(
        canonical(DOTNET),
        "error\nSystem.InvalidOperationException\nShop.Orders.Order.Close\nShop.Orders.OrderHandler.<HandleAsync>d__.MoveNext\nShop.Program.Main"
    );
}

#[test]
fn java_counts_by_the_chain_of_types_without_modules() {
    assert_eq!(
        canonical(JAVA),
        "error\ncom.shop.billing.PaymentException < java.net.SocketTimeoutException\ncom.shop.billing.Gateway.charge\ncom.shop.billing.Payments.lambda$pay$"
    );
}

#[test]
fn python_counts_by_the_last_traceback_from_its_inner_end() {
    assert_eq!(
        canonical(PYTHON_TEXT),
        "error\nIndexError < shop.errors.OutOfStock\nstock.py:reserve\nworker.py:handle"
    );
}

#[test]
fn go_counts_by_what_its_runtime_says_and_the_failing_goroutine() {
    assert_eq!(
        canonical(GO_TEXT),
        "error\nruntime error: index out of range [#] with length #\ngithub.com/acme/shop/stock.(*Ledger).Apply\nmain.main"
    );
}

#[test]
fn node_counts_by_functions_and_file_names() {
    assert_eq!(canonical(NODE), "error\nPriceError\nPrices.find@prices.js\n@order.js\nConsumer.run@consumer.mjs");
}

#[test]
fn dotnet_inner_exceptions_count_on_their_own_lines_and_within_one() {
    let apart = "System.AggregateException: One or more errors occurred.\n ---> System.TimeoutException: 5 s\n   at A.B.C()\n   --- End of inner exception stack trace ---\n   at A.B.D()\n ---> (Inner Exception #1) System.TimeoutException: 6 s<---";
    let inline = "System.AggregateException: One or more errors occurred. ---> System.TimeoutException: 5 s\n   at A.B.C()\n   at A.B.D()";
    assert_eq!(canonical(apart), "error\nSystem.AggregateException < System.TimeoutException\nA.B.C\nA.B.D");
    assert_eq!(canonical(apart), canonical(inline));
}

#[test]
fn messages_numbers_folders_arguments_and_line_ends_do_not_matter() {
    let others = [
        (DOTNET, DOTNET.replace("4711", "1").replace(":line 88", ":line 90").replace("/src/", "C:\\build\\")),
        (DOTNET, DOTNET.replace("d__5", "d__17").replace("(DateTime at)", "(DateTime at, String why)")),
        (DOTNET, DOTNET.replace('\n', "\r\n")),
        (
            JAVA,
            JAVA.replace("4242", "1111").replace(":77", ":78").replace("pay$3", "pay$12").replace("12 more", "9 more"),
        ),
        (PYTHON_TEXT, PYTHON_TEXT.replace("/app/", "/srv/x/").replace("line 22", "line 29").replace("A-17", "B-9")),
        (
            GO_TEXT,
            GO_TEXT
                .replace("0xc0000b4000", "0xc000990000")
                .replace("[5]", "[7]")
                .replace("ledger.go:61", "ledger.go:8"),
        ),
        (GO_TEXT, GO_TEXT.replace("main.wait()", "main.other()")),
        (NODE, NODE.replace("/app/", "/home/node/").replace(":12:11", ":13:2").replace("X-1", "Y-2")),
    ];
    for (one, other) in others {
        assert_ne!(one, other, "the case changes nothing");
        assert_eq!(canonical(one), canonical(&other));
    }
}

#[test]
fn frames_of_others_do_not_matter() {
    let others = [
        (DOTNET, DOTNET.replace("System.Threading.Tasks.Task", "System.Threading.Other")),
        (DOTNET, DOTNET.replace("Whizbang.Inbox", "Whizbang.Outbox")),
        (JAVA, JAVA.replace("java.util.concurrent", "java.util")),
        (PYTHON_TEXT, PYTHON_TEXT.replace("runners.py", "tasks.py")),
        (NODE, NODE.replace("process.processTicksAndRejections", "process.other")),
        (GO_TEXT, GO_TEXT.replace("panic({0x", "runtime.gopanic({0x")),
    ];
    for (one, other) in others {
        assert_ne!(one, other, "the case changes nothing");
        assert_eq!(canonical(one), canonical(&other));
    }
}

#[test]
fn another_type_or_another_own_frame_is_another_fault() {
    let others = [
        (DOTNET, DOTNET.replace("InvalidOperationException", "ArgumentException")),
        (DOTNET, DOTNET.replace("Order.Close", "Order.Reopen")),
        (JAVA, JAVA.replace("SocketTimeoutException", "ConnectException")),
        (JAVA, JAVA.replace("Gateway.charge", "Gateway.refund")),
        (PYTHON_TEXT, PYTHON_TEXT.replace("OutOfStock:", "Reserved:")),
        (PYTHON_TEXT, PYTHON_TEXT.replace("in handle", "in handle_all")),
        (
            GO_TEXT,
            GO_TEXT
                .replace("index out of range [5] with length 3", "invalid memory address or nil pointer dereference"),
        ),
        (GO_TEXT, GO_TEXT.replace("Apply", "Revert")),
        (NODE, NODE.replace("PriceError: no", "TypeError: no")),
        (NODE, NODE.replace("Prices.find", "Prices.all")),
    ];
    for (one, other) in others {
        assert_ne!(fingerprint(one), fingerprint(&other), "{other}");
    }
}

#[test]
fn a_fourth_frame_does_not_matter() {
    let frames = "E.XException: m\n   at A.A.A()\n   at B.B.B()\n   at C.C.C()";
    assert_eq!(fingerprint(frames), fingerprint(&format!("{frames}\n   at D.D.D()")));
}

#[test]
fn a_text_without_type_or_frame_counts_by_its_first_line_made_plain() {
    let cases = [
        ("\n  order 4711 of 'Meier' can't ship to \"Köln\"\nsecond", "text\norder # of # can't ship to #"),
        ("no route to 10.0.0.7:5672 after 1.5s, id=-3", "text\nno route to # after #, id=#"),
        ("message 0197fa3e-aaaa-bbbb-cccc-ddddeeeeffff lost", "text\nmessage # lost"),
        ("handle 0xDEADbeef `x y`\tgone", "text\nhandle # # gone"),
        ("Order: at least one item is required", "text\nOrder: at least one item is required"),
        ("db.shop.internal: connection refused", "text\ndb.shop.internal: connection refused"),
        ("", "text\n"),
        (" \r\n\t", "text\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected);
    }
}

#[test]
fn a_type_without_frames_counts_alone() {
    let cases = [
        ("System.Net.Sockets.SocketException (111): Connection refused", "error\nSystem.Net.Sockets.SocketException"),
        ("TypeError [ERR_INVALID_ARG_TYPE]: The \"path\"", "error\nTypeError"),
        (
            "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space",
            "error\njava.lang.OutOfMemoryError",
        ),
        ("Unhandled exception. System.NullReferenceException", "error\nSystem.NullReferenceException"),
        ("System.ServiceModel.FaultException`1[Shop.Fault]: no", "error\nSystem.ServiceModel.FaultException`1"),
        ("panic: (main.Fault) {1}", "error\nmain.Fault"),
        ("panic: no stock", "error\npanic"),
        (
            "fatal error: all goroutines are asleep - deadlock!",
            "error\nfatal error: all goroutines are asleep - deadlock!",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected);
    }
}

#[test]
fn words_before_the_type_are_passed_over() {
    let text = "Handler failed for order 42:\nShop.OrderException: closed\n   at Shop.Order.Close()";
    assert_eq!(canonical(text), "error\nShop.OrderException\nShop.Order.Close");
}

#[test]
fn a_fingerprint_is_sixteen_hex_digits() {
    for text in ["", DOTNET, "x"] {
        let digits = fingerprint(text);
        assert_eq!(digits.len(), 16);
        assert!(digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
    }
    // Databases keep them: within a version they must not change.
    assert_eq!(fingerprint(""), "b9e68e1bea3e5b19");
}

#[test]
fn hostile_texts_are_read_in_time() {
    for text in [
        "at ".repeat(20_000),
        "a.".repeat(30_000),
        "at (".repeat(10_000),
        "\n".repeat(60_000),
        "'".repeat(60_000),
        "0_".repeat(30_000),
    ] {
        assert_eq!(fingerprint(&text).len(), 16);
    }
}
