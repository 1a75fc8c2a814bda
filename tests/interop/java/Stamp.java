// SPDX-License-Identifier: Apache-2.0

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.function.Supplier;

import org.jgroups.Address;
import org.jgroups.Header;
import org.jgroups.Message;
import org.jgroups.conf.ClassConfigurator;
import org.jgroups.stack.Protocol;
import org.jgroups.util.Bits;
import org.jgroups.util.Util;

/** A user's protocol with a header of its own. It stamps what goes down, and tells what it finds on the way up. */
public class Stamp extends Protocol {
    static final short ID = 2001;
    static final short MAGIC = 2002;

    static {
        ClassConfigurator.addProtocol(ID, Stamp.class);
        ClassConfigurator.add(MAGIC, StampHeader.class);
    }

    private final Peer peer;
    private long next;

    Stamp(Peer peer) {
        this.peer = peer;
        setId(ID);
    }

    @Override
    public Object down(Message message) {
        StampHeader header = new StampHeader();
        header.number = next++;
        header.big = -header.number;
        header.share = 0.25;
        header.yes = true;
        header.text = "Zürich";
        header.note = header.number == 0 ? null : "n" + header.number;
        header.data = new byte[] {1, 2};
        header.more = header.number == 0 ? null : new byte[] {3};
        header.who = local_addr;
        message.putHeader(ID, header);
        return down_prot.down(message);
    }

    @Override
    public Object up(Message message) {
        StampHeader header = message.getHeader(ID);
        if (header != null && !message.getSrc().equals(local_addr))
            peer.print("called", "method", "stamp", "value", header.toString(), "who", peer.nameOf(header.who));
        return up_prot.up(message);
    }

    public static class StampHeader extends Header {
        long number;
        long big;
        double share;
        boolean yes;
        String text = "";
        String note;
        byte[] data = {};
        byte[] more;
        Address who;

        @Override
        public short getMagicId() {
            return MAGIC;
        }

        @Override
        public Supplier<? extends Header> create() {
            return StampHeader::new;
        }

        @Override
        public int serializedSize() {
            int words = 2 + text.getBytes(java.nio.charset.StandardCharsets.UTF_8).length + Bits.size(note);
            int bytes = 4 + data.length + Util.size(more);
            return Bits.size(number) + 8 + 8 + 1 + words + bytes + Util.size(who);
        }

        @Override
        public void writeTo(DataOutput out) throws IOException {
            Bits.writeLongCompressed(number, out);
            out.writeLong(big);
            out.writeDouble(share);
            out.writeBoolean(yes);
            out.writeUTF(text);
            Bits.writeString(note, out);
            out.writeInt(data.length);
            out.write(data);
            Util.writeByteBuffer(more, 0, more == null ? 0 : more.length, out); // its short form takes no null
            Util.writeAddress(who, out);
        }

        @Override
        public void readFrom(DataInput in) throws IOException, ClassNotFoundException {
            number = Bits.readLongCompressed(in);
            big = in.readLong();
            share = in.readDouble();
            yes = in.readBoolean();
            text = in.readUTF();
            note = Bits.readString(in);
            data = new byte[in.readInt()];
            in.readFully(data);
            more = Util.readByteBuffer(in);
            who = Util.readAddress(in);
        }

        @Override
        public String toString() {
            return number + " " + big + " " + share + " " + yes + " " + text + " " + note + " "
                + java.util.Arrays.toString(data) + " " + java.util.Arrays.toString(more);
        }
    }
}
