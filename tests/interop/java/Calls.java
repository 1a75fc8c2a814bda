// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Receiver;
import org.jgroups.blocks.MethodCall;
import org.jgroups.blocks.RequestOptions;
import org.jgroups.blocks.ResponseMode;
import org.jgroups.blocks.RpcDispatcher;
import org.jgroups.util.Rsp;
import org.jgroups.util.RspList;

/**
 * The calls a member makes, and the methods others can call on it.
 *
 * Arguments are words "int:5", "long:5", "Integer:5", "double:1.5", "boolean:true", "String:x",
 * "bytes:3" (that many), "null:String", "Object:x", "Address:NAME".
 */
public class Calls {
    private static final long TIMEOUT_MS = 30_000;

    private final RpcDispatcher dispatcher;
    private final Peer peer;

    Calls(Peer peer, JChannel channel, Receiver receiver) {
        this.peer = peer;
        dispatcher = new RpcDispatcher(channel, new Target(peer));
        dispatcher.setReceiver(receiver);
        dispatcher.setMethodLookup(id -> {
            try {
                return id == 7 ? Target.class.getMethod("join", String.class, String.class) : null;
            } catch (NoSuchMethodException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** What others call. */
    public static class Target {
        private final Peer peer;
        private final List<String> noted = Collections.synchronizedList(new ArrayList<>());

        Target(Peer peer) {
            this.peer = peer;
        }

        public int add(int a, int b) { return a + b; }

        public long add(long a, long b) { return a + b; }

        public Integer half(Integer a) { return a == null ? null : a / 2; }

        public double twice(double a) { return 2 * a; }

        public boolean not(boolean a) { return !a; }

        public String join(String a, String b) { return a + b; }

        public byte[] reversed(byte[] bytes) {
            byte[] out = new byte[bytes.length];
            for (int i = 0; i < bytes.length; i++) out[i] = bytes[bytes.length - 1 - i];
            return out;
        }

        public char letter(char c) { return (char) (c + 1); }

        public String described(Object value) {
            return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
        }

        public Address same(Address member) { return member; }

        public List<String> list() { return new ArrayList<>(List.of("a", "b")); }

        public void nothing() {}

        public void note(String text) { noted.add(text); }

        public String noted() { return String.join(",", noted); }

        public String fail(String text) { throw new IllegalArgumentException(text); }
    }

    void call(Address dest, String method, String[] words, int from) throws Exception {
        RequestOptions options = RequestOptions.SYNC().setTimeout(TIMEOUT_MS);
        try {
            Object value = dispatcher.callRemoteMethod(dest, call(method, words, from), options);
            peer.print("called", "value", shown(value));
        } catch (Exception e) {
            peer.print("called", "problem", e.toString());
        }
    }

    /** EXCLUDED is - or a member; to these DESTS (null: all). */
    void callAll(Collection<Address> dests, Address excluded, String method, String[] words, int from)
        throws Exception {
        RequestOptions options = new RequestOptions(ResponseMode.GET_ALL, TIMEOUT_MS);
        if (excluded != null) options.exclusionList(excluded);
        if (dests != null) options.anycasting(true);
        RspList<Object> replies =
            dispatcher.callRemoteMethods(dests, call(method, words, from), options);
        Map<String, Object> values = new TreeMap<>();
        for (Map.Entry<Address, Rsp<Object>> entry : replies.entrySet()) {
            Rsp<Object> reply = entry.getValue();
            values.put(Peer.nameOf(entry.getKey()),
                reply.hasException() ? reply.getException().toString()
                : reply.wasReceived() ? shown(reply.getValue()) : "not received");
        }
        peer.print("called", "value", values);
    }

    void cast(String method, String[] words, int from) throws Exception {
        dispatcher.callRemoteMethods(null, call(method, words, from), RequestOptions.ASYNC());
    }

    private static String shown(Object value) {
        if (value == null) return "null";
        String text = value instanceof byte[] ? String.valueOf(((byte[]) value).length)
            : String.valueOf(value);
        return value.getClass().getSimpleName() + " "
            + (text.length() > 200 ? text.length() : text);
    }

    private MethodCall call(String method, String[] words, int from) {
        Object[] values = new Object[words.length - from];
        Class<?>[] types = new Class<?>[values.length];
        for (int i = 0; i < values.length; i++) {
            String[] pair = words[from + i].split(":", 2);
            values[i] = value(pair[0], pair[1]);
            types[i] = type(pair[0], pair[1]);
        }
        if (method.startsWith("#"))
            return new MethodCall(Short.parseShort(method.substring(1)), values);
        return new MethodCall(method, values, types);
    }

    private Object value(String type, String text) {
        switch (type) {
            case "int": case "Integer": return Integer.valueOf(text);
            case "long": return Long.valueOf(text);
            case "double": return Double.valueOf(text);
            case "boolean": return Boolean.valueOf(text);
            case "String": case "Object": return text;
            case "bytes": return new byte[Integer.parseInt(text)];
            case "list": return new ArrayList<>(List.of(text));
            case "null": return null;
            case "Address": return peer.find(text);
            default: throw new IllegalArgumentException("unknown type " + type);
        }
    }

    private static Class<?> type(String type, String text) {
        switch (type) {
            case "int": return int.class;
            case "Integer": return Integer.class;
            case "long": return long.class;
            case "double": return double.class;
            case "boolean": return boolean.class;
            case "bytes": return byte[].class;
            case "Object": case "list": return Object.class;
            case "Address": return Address.class;
            default: return String.class;
        }
    }
}
