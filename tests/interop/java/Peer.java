// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.zip.CRC32;

import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.CompositeMessage;
import org.jgroups.EmptyMessage;
import org.jgroups.JChannel;
import org.jgroups.LongMessage;
import org.jgroups.MergeView;
import org.jgroups.Message;
import org.jgroups.NioMessage;
import org.jgroups.ObjectMessage;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.conf.ConfiguratorFactory;
import org.jgroups.conf.ProtocolConfiguration;
import org.jgroups.conf.ProtocolStackConfigurator;
import org.jgroups.util.NameCache;
import org.jgroups.util.UUID;

/**
 * One JGroups member, driven by lines on standard input; everything it sees goes to standard output,
 * one JSON object per line. Ends with its input, with "exit", or after LIFETIME_MS.
 *
 * Commands (words separated by single spaces; DEST is * or a member's name; FLAGS is - or A,B):
 *   open STACK NAME [PROTOCOL.attribute=value ...]
 *   connect CLUSTER | join-with-state CLUSTER MS | state NAME|- MS | provide SIZE SEED
 *   send DEST FLAGS TEXT | empty DEST FLAGS | bulk DEST FLAGS COUNT SIZE SEED
 *   rpc (before connecting: methods can be called here, see Calls.java)
 *   call DEST METHOD ARG... | cast METHOD ARG... | call-all NAME,NAME|- EXCLUDED|- METHOD ARG...
 *   kinds DEST SIZE: one message of each class, about SIZE bytes each
 *   stamp (before connecting: a protocol with headers of its own on top, see Stamp.java)
 *   quiet on|off | counts | stats PROTOCOL | close | exit
 * Each command is answered by {"event": "done"} or {"event": "failed", "problem": ...}.
 */
public class Peer implements Receiver {
    private static final long LIFETIME_MS = 300_000;
    private static final int TEXT_MAX = 200;
    private static final int NAME_WAIT_MAX = 5; // s

    private final PrintStream out;
    private final Map<String, long[]> counts = new TreeMap<>();
    private JChannel channel;
    private byte[] state;
    private volatile boolean quiet;
    private Calls calls;

    private Peer(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // JGroups prints a banner
        Peer peer = new Peer(out);
        peer.collectLog();
        Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(LIFETIME_MS);
            } catch (InterruptedException e) {
                return;
            }
            Runtime.getRuntime().halt(3);
        });
        watchdog.setDaemon(true);
        watchdog.start();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("exit")) break;
            try {
                peer.run(line.split(" "));
                peer.print("done", "command", line.length() > 60 ? line.substring(0, 60) : line);
            } catch (Throwable e) {
                peer.print("failed", "command", line, "problem", e.toString());
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "open": open(words); break;
            case "connect": channel.connect(words[1]); break;
            case "join-with-state":
                channel.connect(words[1], null, Long.parseLong(words[2]));
                break;
            case "state":
                channel.getState(find(words[1]), Long.parseLong(words[2]));
                break;
            case "provide":
                state = filler(0, Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                break;
            case "send":
                send(new BytesMessage(find(words[1]), rest(words, 3)), words[2]);
                break;
            case "empty": send(new EmptyMessage(find(words[1])), words[2]); break;
            case "bulk": bulk(words); break;
            case "quiet": quiet = words[1].equals("on"); break;
            case "counts": printCounts(); break;
            case "stats": print("stats", "stats", channel.dumpStats(words[1]).get(words[1])); break;
            case "kinds": kinds(find(words[1]), Integer.parseInt(words[2])); break;
            case "stamp": channel.getProtocolStack().addProtocol(new Stamp(this)); break;
            case "rpc": calls = new Calls(this, channel, this); break;
            case "call": calls.call(find(words[1]), words[2], words, 3); break;
            case "cast": calls.cast(words[1], words, 2); break;
            case "call-all":
                calls.callAll(findAll(words[1]), find(words[2]), words[3], words, 4);
                break;
            case "close": channel.close(); break;
            default: throw new IllegalArgumentException("unknown command");
        }
    }

    private void open(String[] words) throws Exception {
        ProtocolStackConfigurator stack = ConfiguratorFactory.getStackConfigurator(words[1]);
        for (int i = 3; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            int dot = pair[0].indexOf('.');
            String protocol = pair[0].substring(0, dot);
            boolean found = false;
            for (ProtocolConfiguration configuration : stack.getProtocolStack()) {
                String name = configuration.getProtocolName();
                if (name.substring(name.lastIndexOf('.') + 1).equals(protocol)) {
                    configuration.getProperties().put(pair[0].substring(dot + 1), pair[1]);
                    found = true;
                }
            }
            if (!found) throw new IllegalArgumentException("no " + protocol + " in the stack");
        }
        channel = new JChannel(stack);
        channel.setName(words[2]);
        channel.setReceiver(this);
    }

    private Collection<Address> findAll(String names) {
        if (names.equals("-")) return null;
        List<Address> found = new ArrayList<>();
        for (String name : names.split(",")) found.add(find(name));
        return found;
    }

    Address find(String name) {
        if (name.equals("*") || name.equals("-")) return null;
        for (Address member : channel.getView().getMembers())
            if (name.equals(nameOf(member))) return member;
        throw new IllegalArgumentException("no member " + name + " in " + channel.getView());
    }

    private void send(Message message, String flags) throws Exception {
        if (!flags.equals("-"))
            for (String flag : flags.split(","))
                if (flag.equals("DONT_LOOPBACK"))
                    message.setFlag(Message.TransientFlag.DONT_LOOPBACK);
                else
                    message.setFlag(Message.Flag.valueOf(flag));
        channel.send(message);
    }

    private void bulk(String[] words) throws Exception {
        Address dest = find(words[1]);
        int size = Integer.parseInt(words[4]);
        int seed = Integer.parseInt(words[5]);
        for (int i = 1; i <= Integer.parseInt(words[3]); i++)
            send(new BytesMessage(dest, filler(i, size, seed)), words[2]);
    }

    private void kinds(Address dest, int size) throws Exception {
        byte[] bytes = filler(1, size, 9);
        String text = "x".repeat(size);
        channel.send(new BytesMessage(dest, bytes));
        channel.send(new NioMessage(dest, ByteBuffer.wrap(bytes)));
        channel.send(new NioMessage(dest, ByteBuffer.allocateDirect(size).put(bytes).flip()));
        channel.send(new ObjectMessage(dest, text));
        channel.send(new ObjectMessage(dest, new ArrayList<>(List.of(text))));
        channel.send(new LongMessage(dest, size));
        channel.send(new CompositeMessage(dest, new BytesMessage(dest, bytes),
            new ObjectMessage(dest, text)));
        channel.send(new EmptyMessage(dest));
    }

    /** Number (8 bytes), then bytes that follow from position, number and seed. */
    private static byte[] filler(long number, int size, int seed) {
        byte[] bytes = new byte[size];
        if (size >= 8) ByteBuffer.wrap(bytes).putLong(number);
        for (int i = 8; i < size; i++) bytes[i] = (byte) (i * 7 + number * 13 + seed);
        return bytes;
    }

    // what comes

    @Override
    public void receive(Message message) {
        byte[] payload = new byte[message.getLength()];
        if (message.hasArray() && payload.length > 0)
            System.arraycopy(message.getArray(), message.getOffset(), payload, 0, payload.length);
        String from = nameOf(message.getSrc());
        String key = from + (message.getDest() == null ? " *" : " 1");
        synchronized (counts) {
            // messages, bytes, last number, out of order, wrong content
            long[] count = counts.computeIfAbsent(key, k -> new long[5]);
            count[0]++;
            count[1] += payload.length;
            if (quiet && payload.length >= 8) {
                long number = ByteBuffer.wrap(payload).getLong();
                if (number != count[2] + 1) count[3]++;
                count[2] = number;
                byte[] expected = filler(number, payload.length, payload.length > 8
                    ? payload[8] - 8 * 7 - (int) number * 13 : 0);
                if (!java.util.Arrays.equals(expected, payload)) count[4]++;
            }
        }
        if (quiet) return;
        CRC32 crc = new CRC32();
        crc.update(payload);
        print("message", "from", from, "multicast", message.getDest() == null,
            "size", payload.length, "crc", crc.getValue(), "flags", (int) message.getFlags(false),
            "text", payload.length > TEXT_MAX ? "" : new String(payload, StandardCharsets.UTF_8));
    }

    @Override
    public void viewAccepted(View view) {
        List<String> names = new ArrayList<>();
        List<String> ids = new ArrayList<>();
        for (Address member : view.getMembers()) {
            names.add(nameOf(member));
            ids.add(idOf(member));
        }
        print("view", "number", view.getViewId().getId(), "creator", idOf(view.getCreator()),
            "members", names, "ids", ids, "merge", view instanceof MergeView);
    }

    @Override
    public void getState(OutputStream output) throws Exception {
        if (state == null) throw new IllegalStateException("no state to give");
        output.write(state);
    }

    @Override
    public void setState(InputStream input) throws Exception {
        byte[] bytes = input.readAllBytes();
        CRC32 crc = new CRC32();
        crc.update(bytes);
        print("state", "size", bytes.length, "crc", crc.getValue());
    }

    private void printCounts() {
        synchronized (counts) {
            Map<String, Object> all = new HashMap<>();
            for (Map.Entry<String, long[]> entry : counts.entrySet()) {
                List<Object> numbers = new ArrayList<>();
                for (long number : entry.getValue()) numbers.add(number);
                all.put(entry.getKey(), numbers);
            }
            print("counts", "counts", all);
        }
    }

    private void collectLog() {
        Logger root = Logger.getLogger("");
        for (Handler handler : root.getHandlers()) root.removeHandler(handler);
        root.setLevel(Level.INFO);
        root.addHandler(new Handler() {
            @Override
            public void publish(LogRecord record) {
                if (record.getLevel().intValue() < Level.WARNING.intValue()) return;
                String text = record.getMessage();
                for (Throwable e = record.getThrown(); e != null; e = e.getCause())
                    text += " | " + e;
                print("log", "level", record.getLevel().getName(),
                    "logger", String.valueOf(record.getLoggerName()), "text", text);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        });
        Thread.setDefaultUncaughtExceptionHandler((thread, e) ->
            print("log", "level", "UNCAUGHT", "logger", thread.getName(), "text", e.toString()));
    }

    /** Logical names arrive by discovery and may be later than the first view that has the member (as in names.py). */
    static String nameOf(Address member) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(NAME_WAIT_MAX);
        String name = NameCache.get(member);
        while (name == null && member != null && member.getClass() == UUID.class && System.nanoTime() < end) {
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                break;
            }
            name = NameCache.get(member);
        }
        return name != null ? name : String.valueOf(member);
    }

    private static String idOf(Address member) {
        UUID id = (UUID) member;
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    // JSON

    void print(String event, Object... pairs) {
        StringBuilder line = new StringBuilder("{\"event\": ").append(json(event));
        for (int i = 0; i < pairs.length; i += 2)
            line.append(", ").append(json(pairs[i])).append(": ").append(json(pairs[i + 1]));
        byte[] bytes = line.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(bytes, 0, bytes.length);
            out.flush();
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean)
            return String.valueOf(value);
        if (value instanceof Map) {
            List<String> parts = new ArrayList<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet())
                parts.add(json(entry.getKey()) + ": " + json(entry.getValue()));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof List) {
            List<String> parts = new ArrayList<>();
            for (Object part : (List<?>) value) parts.add(json(part));
            return "[" + String.join(", ", parts) + "]";
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray())
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < 32 || c > 126) text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        return text.append('"').toString();
    }

    private static byte[] rest(String[] words, int from) {
        List<String> parts = new ArrayList<>();
        for (int i = from; i < words.length; i++) parts.add(words[i]);
        return String.join(" ", parts).getBytes(StandardCharsets.UTF_8);
    }
}
