// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.relay.RELAY2;
import org.jgroups.protocols.relay.config.RelayConfig;
import org.jgroups.util.MessageBatch;

/**
 * A member of one of several sites that RELAY2 connects. It hears and says the lines of relays.py, as relay_member.py does.
 *
 * Arguments: STACK CLUSTER NAME SITE SITES (comma-separated) sends|hears SIZE SECONDS WARM_UP BRIDGE_STACK, then
 * PROTOCOL.attribute=value for each override of STACK and bridge:PROTOCOL.attribute=value for each of BRIDGE_STACK. Ends with its
 * input.
 */
public class RelayMember implements Receiver {
    private static final int OVERRIDES = 10;
    private static final int PROBE = 0, PACED = 1, FAST = 2;
    private static final int HEAD = 17;
    private static final int CHUNK = 50;
    private static final long PACE_MS = 5, PROBE_MS = 1;
    private static final long LAST_WAIT_NS = 10_000_000_000L;
    private static final String BRIDGE = "bridge:";

    private final PrintStream out;
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    private final int size;
    private final double seconds, warmUp;
    private final CountDownLatch heard = new CountDownLatch(1);
    private final List<Long> took = Collections.synchronizedList(new ArrayList<>());
    private volatile long paced, fast, wrong; // one thread at a time delivers messages of one sender

    private RelayMember(PrintStream out, String[] args) {
        this.out = out;
        size = Integer.parseInt(args[6]);
        seconds = Double.parseDouble(args[7]);
        warmUp = Double.parseDouble(args[8]);
    }

    public static void main(String[] args) {
        PrintStream out = System.out;
        System.setOut(System.err); // JGroups prints a banner
        try {
            new RelayMember(out, args).run(args);
            Runtime.getRuntime().halt(0);
        } catch (Throwable e) {
            System.err.println(e);
            Runtime.getRuntime().halt(2);
        }
    }

    private void run(String[] args) throws Exception {
        JChannel channel = open(args);
        channel.setReceiver(this);
        channel.connect(args[1] + "-" + args[3]);
        out.println("{\"event\": \"joined\"}");
        if (args[5].equals("sends")) send(channel);
        else {
            heard.await();
            out.println("{\"event\": \"ready\"}");
            measure();
        }
        in.readLine();
        channel.close();
    }

    private static JChannel open(String[] args) throws Exception {
        List<String> mine = new ArrayList<>(), bridge = new ArrayList<>();
        for (int i = OVERRIDES; i < args.length; i++) {
            if (args[i].startsWith(BRIDGE)) bridge.add(args[i].substring(BRIDGE.length()));
            else mine.add(args[i]);
        }
        JChannel channel = Stacks.open(args[0], mine);
        channel.setName(args[2]);
        RELAY2 relay = new RELAY2();
        relay.setSite(args[3]);
        for (String site : args[4].split(","))
            relay.addSite(site, new RelayConfig.SiteConfig(site)
                .addBridge(new Bridge(args[1] + "-bridge", args[9], bridge)));
        channel.getProtocolStack().insertProtocolAtTop(relay);
        relay.init();
        return channel;
    }

    /** The group of the sites' masters. */
    private static final class Bridge extends RelayConfig.BridgeConfig {
        private final String stack;
        private final List<String> overrides;

        Bridge(String cluster, String stack, List<String> overrides) {
            super(cluster);
            this.stack = stack;
            this.overrides = overrides;
        }

        @Override public JChannel createChannel() throws Exception {
            return Stacks.open(stack, overrides);
        }
    }

    private byte[] message(int phase, long number, double at) {
        byte[] payload = new byte[size];
        ByteBuffer.wrap(payload).put((byte) phase).putLong(number).putDouble(at);
        return payload;
    }

    /** nanoTime and Python's time.monotonic read the same clock on Linux. */
    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private void send(JChannel channel) throws Exception {
        while (!in.ready()) {
            channel.send(new BytesMessage(null, message(PROBE, 0, 0)));
            Thread.sleep(PROBE_MS);
        }
        double begin = numbers(in.readLine()).get(0);
        while (now() < begin) {
            channel.send(new BytesMessage(null, message(PROBE, 0, 0)));
            Thread.sleep(PROBE_MS);
        }
        long slow = 0, quick = 0;
        while (now() < begin + seconds) {
            channel.send(new BytesMessage(null, message(PACED, slow++, now())));
            Thread.sleep(PACE_MS);
        }
        double end = begin + 2 * seconds + warmUp;
        while (now() < end)
            for (int i = 0; i < CHUNK; i++)
                channel.send(new BytesMessage(null, message(FAST, quick++, 0)));
        out.println("{\"event\": \"sent\", \"paced\": " + slow + ", \"fast\": " + quick + "}");
    }

    @Override public void receive(Message message) {
        ByteBuffer head = ByteBuffer.wrap(message.getArray(), message.getOffset(), HEAD);
        int phase = head.get();
        long seqno = head.getLong();
        if (phase == PROBE) heard.countDown();
        else if (phase == PACED) {
            took.add(System.nanoTime() - (long) (head.getDouble() * 1e9));
            if (seqno != paced) wrong++;
            paced = seqno + 1;
        } else {
            if (seqno != fast) wrong++;
            fast = seqno + 1;
        }
    }

    @Override public void receive(MessageBatch batch) {
        for (Message message : batch) receive(message);
    }

    private void measure() throws Exception {
        double begin = numbers(in.readLine()).get(0);
        sleepUntil(begin + seconds + warmUp);
        long first = fast;
        double began = now();
        sleepUntil(began + seconds);
        double rate = (fast - first) / (now() - began);
        List<Double> sent = numbers(in.readLine());
        waitFor(sent.get(1).longValue());
        long lost = sent.get(0).longValue() - paced + sent.get(1).longValue() - fast;
        List<Long> sorted = new ArrayList<>(took);
        Collections.sort(sorted);
        out.println("{\"event\": \"measured\", \"per_s\": " + rate + ", \"p50_us\": " + part(sorted, 0.5)
            + ", \"p99_us\": " + part(sorted, 0.99) + ", \"wrong\": " + (wrong + lost) + "}");
    }

    private void waitFor(long total) throws InterruptedException {
        long seen = -1, since = System.nanoTime();
        while (fast < total && System.nanoTime() - since < LAST_WAIT_NS) {
            if (fast != seen) {
                seen = fast;
                since = System.nanoTime();
            }
            Thread.sleep(20);
        }
    }

    private static long part(List<Long> sorted, double part) {
        return sorted.isEmpty() ? 0 : sorted.get((int) (part * sorted.size())) / 1000;
    }

    private static void sleepUntil(double time) throws InterruptedException {
        long rest = (long) ((time - now()) * 1000);
        if (rest > 0) Thread.sleep(rest);
    }

    private static List<Double> numbers(String line) {
        List<Double> found = new ArrayList<>();
        Matcher matcher = Pattern.compile("[0-9]+(\\.[0-9]+)?").matcher(line == null ? "" : line);
        while (matcher.find()) found.add(Double.parseDouble(matcher.group()));
        return found;
    }
}
