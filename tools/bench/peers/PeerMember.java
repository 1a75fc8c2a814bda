// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.blocks.MethodCall;
import org.jgroups.blocks.RequestOptions;
import org.jgroups.blocks.ResponseMode;
import org.jgroups.blocks.RpcDispatcher;
import org.jgroups.util.MessageBatch;

/**
 * A member of JGroups that hears and says the lines of mperf_run.py, rpcperf_run.py or groups.py.
 *
 * Arguments: messages|calls|group STACK CLUSTER NUMBER MEMBERS SENDERS SIZE SECONDS WARM_UP CALLERS
 * (comma-separated numbers) HUGE SLOW (as in MperfPlan), then PROTOCOL.attribute=value for each override. Ends with its input.
 */
public class PeerMember implements Receiver {
    private static final int WINDOWS = 3;
    private static final int SEQNO_BITS = 40;
    private static final int CHUNK = 100;
    private static final int SMALL_BETWEEN_HUGE = 50;
    private static final int OVERRIDES = 12;
    private static final double WARM_AGAIN = 2.0;
    private static final long LAST_WAIT_NS = 10_000_000_000L;
    private static final long CALL_TIMEOUT_MS = 10_000;

    private final PrintStream out;
    private final BufferedReader in;
    private final int number, members, senders, size, huge;
    private final double seconds, warmUp, slow;
    private final Object work = new Object();
    private long busyUntil;
    private final AtomicLong[] next;
    private final AtomicLong duplicates = new AtomicLong();
    private final AtomicLong missing = new AtomicLong();
    private final CountDownLatch complete = new CountDownLatch(1);
    private final AtomicLong views = new AtomicLong();
    private volatile long sent;

    private PeerMember(PrintStream out, String[] args) {
        this.out = out;
        in = new BufferedReader(new InputStreamReader(System.in));
        number = Integer.parseInt(args[3]);
        members = Integer.parseInt(args[4]);
        senders = Integer.parseInt(args[5]);
        size = Integer.parseInt(args[6]);
        seconds = Double.parseDouble(args[7]);
        warmUp = Double.parseDouble(args[8]);
        huge = Integer.parseInt(args[10]);
        slow = number == members - 1 ? Double.parseDouble(args[11]) : 0;
        next = new AtomicLong[senders];
        for (int i = 0; i < senders; i++) next[i] = new AtomicLong();
    }

    public static void main(String[] args) {
        PrintStream out = System.out;
        System.setOut(System.err); // JGroups prints a banner
        try {
            PeerMember member = new PeerMember(out, args);
            if (args[0].equals("group")) {
                member.group(args);
                Runtime.getRuntime().halt(0);
            }
            JChannel channel = open(args);
            if (args[0].equals("messages")) member.messages(channel, args[2]);
            else member.calls(channel, args[2], args[9]);
            channel.close();
            Runtime.getRuntime().halt(0);
        } catch (Throwable e) {
            System.err.println(e);
            Runtime.getRuntime().halt(2);
        }
    }

    private void group(String[] args) throws Exception {
        out.println("{\"event\": \"loaded\"}");
        if (in.readLine() == null) return;
        JChannel channel = open(args);
        channel.setReceiver(new Receiver() {
            @Override public void viewAccepted(View view) {
                out.println("{\"event\": \"view\", \"members\": " + view.size()
                    + ", \"at\": " + System.nanoTime() / 1e9 + "}");
            }
        });
        channel.connect(args[2]);
        while (in.readLine() != null) { }
        channel.close();
    }

    private static JChannel open(String[] args) throws Exception {
        JChannel channel = Stacks.open(args[1], Arrays.asList(args).subList(OVERRIDES, args.length));
        channel.setName("M" + (Integer.parseInt(args[3]) + 1));
        return channel;
    }

    @Override public void viewAccepted(View view) {
        if (view.size() == members || views.get() > 0) {
            views.incrementAndGet();
            complete.countDown();
        }
    }

    @Override public void receive(Message message) {
        long head = ByteBuffer.wrap(message.getArray(), message.getOffset(), 8).getLong();
        AtomicLong expected = next[(int) (head >> SEQNO_BITS)];
        long seqno = head & ((1L << SEQNO_BITS) - 1);
        long due = expected.get();
        if (seqno < due) {
            duplicates.incrementAndGet();
            return;
        }
        if (seqno > due) missing.addAndGet(seqno - due);
        expected.lazySet(seqno + 1); // a sender's messages come one after the other
        if (slow > 0) work(message.getLength());
    }

    /** Takes the time that a slow application needs for so many bytes. */
    private void work(int length) {
        long until;
        synchronized (work) {
            busyUntil = Math.max(busyUntil, System.nanoTime()) + (long) (length / slow * 1e9);
            until = busyUntil;
        }
        try {
            if (until - System.nanoTime() > 1_000_000) sleepUntil(until);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override public void receive(MessageBatch batch) {
        for (Message message : batch) receive(message);
    }

    private long delivered() {
        long sum = 0;
        for (AtomicLong one : next) sum += one.get();
        return sum - missing.get();
    }

    private void messages(JChannel channel, String cluster) throws Exception {
        channel.setReceiver(this);
        channel.connect(cluster);
        complete.await();
        out.println("{\"event\": \"ready\"}");
        // nanoTime and Python's time.monotonic read the same clock on Linux.
        long start = (long) (numbers(in.readLine()).get(0) * 1e9);
        long cpu = cpuNanos();
        Thread sender = new Thread(() -> send(channel, start));
        if (number < senders) sender.start();
        List<String> rates = new ArrayList<>();
        long lastAt = 0, lastCount = 0;
        for (int window = 0; window <= WINDOWS; window++) {
            sleepUntil(start + (long) ((warmUp + seconds * window / WINDOWS) * 1e9));
            long at = System.nanoTime(), count = delivered();
            if (window > 0) rates.add(String.valueOf((count - lastCount) * 1e9 / (at - lastAt)));
            lastAt = at;
            lastCount = count;
        }
        sender.join();
        out.println("{\"event\": \"sent\", \"sent\": " + sent + "}");
        long total = 0;
        for (double one : numbers(in.readLine())) total += (long) one;
        waitFor(total);
        double used = (cpuNanos() - cpu) / 1e9;
        out.println("{\"event\": \"done\", \"name\": \"M" + (number + 1) + "\", \"sent\": " + sent
            + ", \"delivered\": " + delivered() + ", \"duplicates\": " + duplicates
            + ", \"out_of_order\": 0, \"lost\": " + Math.max(0, total - delivered())
            + ", \"rates\": " + rates + ", \"view_changes\": " + (views.get() - 1) + ", \"cpu_s\": " + used + ", \"statistics\": {}}");
        in.readLine();
    }

    private void send(JChannel channel, long start) {
        long base = (long) number << SEQNO_BITS;
        long end = start + (long) ((warmUp + seconds) * 1e9);
        try {
            sleepUntil(start);
            while (System.nanoTime() < end)
                for (int i = 0; i < CHUNK; i++) {
                    boolean isHuge = huge > 0 && sent % (SMALL_BETWEEN_HUGE + 1) == SMALL_BETWEEN_HUGE;
                    byte[] payload = new byte[isHuge ? huge : size];
                    ByteBuffer.wrap(payload).putLong(base + sent);
                    channel.send(new BytesMessage(null, payload));
                    sent++;
                }
        } catch (Exception e) {
            System.err.println(e);
            Runtime.getRuntime().halt(2);
        }
    }

    private void waitFor(long total) throws InterruptedException {
        long seen = -1, since = System.nanoTime();
        while (delivered() < total && System.nanoTime() - since < LAST_WAIT_NS) {
            if (delivered() != seen) {
                seen = delivered();
                since = System.nanoTime();
            }
            Thread.sleep(20);
        }
    }

    /** What others call. */
    public static class Echo {
        public byte[] echo(byte[] data) { return data; }
    }

    private void calls(JChannel channel, String cluster, String callers) throws Exception {
        RpcDispatcher dispatcher = new RpcDispatcher(channel, new Echo());
        java.lang.reflect.Method echo = Echo.class.getMethod("echo", byte[].class);
        dispatcher.setMethodLookup(id -> echo);
        dispatcher.setReceiver(this);
        channel.connect(cluster);
        complete.await();
        out.println("{\"event\": \"ready\"}");
        in.readLine();
        if (number == 0) {
            List<Address> others = new ArrayList<>(channel.getView().getMembers());
            others.remove(channel.getAddress());
            double warm = warmUp;
            for (String count : callers.split(",")) {
                measure(dispatcher, others.get(0), Integer.parseInt(count), warm);
                warm = Math.min(warm, WARM_AGAIN); // by then it is compiled
            }
        }
        while (in.readLine() != null) { }
    }

    private void measure(RpcDispatcher dispatcher, Address dest, int callers, double warm)
            throws Exception {
        byte[] data = new byte[size];
        RequestOptions options = new RequestOptions(ResponseMode.GET_ALL, CALL_TIMEOUT_MS)
            .flags(Message.Flag.OOB); // requests of several callers run beside each other
        long begin = System.nanoTime() + (long) (warm * 1e9), end = begin + (long) (seconds * 1e9);
        AtomicLong wrong = new AtomicLong();
        List<List<Long>> took = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < callers; i++) {
            List<Long> mine = new ArrayList<>();
            took.add(mine);
            threads.add(new Thread(() -> {
                for (long at = System.nanoTime(); at < end; ) {
                    try {
                        byte[] value = dispatcher.callRemoteMethod(
                            dest, new MethodCall((short) 1, (Object) data), options);
                        if (!Arrays.equals(value, data)) wrong.incrementAndGet();
                    } catch (Exception e) {
                        wrong.incrementAndGet();
                    }
                    long now = System.nanoTime();
                    if (at >= begin) mine.add(now - at);
                    at = now;
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        sleepUntil(begin);
        long cpu = cpuNanos();
        for (Thread thread : threads) thread.join();
        cpu = cpuNanos() - cpu;
        List<Long> all = new ArrayList<>();
        for (List<Long> mine : took) all.addAll(mine);
        all.sort(null);
        out.println("{\"event\": \"measured\", \"callers\": " + callers + ", \"calls_per_s\": "
            + Math.round(all.size() / seconds) + ", \"caller_cpu_us\": "
            + Math.round(cpu / 100.0 / Math.max(1, all.size())) / 10.0 + ", \"p50_us\": "
            + part(all, 0.5) + ", \"p99_us\": " + part(all, 0.99) + ", \"p999_us\": "
            + part(all, 0.999) + ", \"wrong\": " + wrong + "}");
    }

    private static long part(List<Long> sorted, double part) {
        if (sorted.isEmpty()) return -1;
        return sorted.get(Math.min(sorted.size() - 1, (int) (part * sorted.size()))) / 1000;
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static void sleepUntil(long nanos) throws InterruptedException {
        long rest = nanos - System.nanoTime();
        if (rest > 0) Thread.sleep(rest / 1_000_000, (int) (rest % 1_000_000));
    }

    private static List<Double> numbers(String line) {
        List<Double> found = new ArrayList<>();
        Matcher matcher = Pattern.compile("[0-9]+(\\.[0-9]+)?").matcher(line == null ? "" : line);
        while (matcher.find()) found.add(Double.parseDouble(matcher.group()));
        return found;
    }
}
