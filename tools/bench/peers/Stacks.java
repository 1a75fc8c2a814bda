// SPDX-License-Identifier: Apache-2.0

import org.jgroups.JChannel;
import org.jgroups.conf.ConfiguratorFactory;
import org.jgroups.conf.ProtocolConfiguration;
import org.jgroups.conf.ProtocolStackConfigurator;

/** Opens channels with a stack of JGroups and other values of some attributes. */
final class Stacks {
    private Stacks() { }

    /** Returns a channel that is not connected. Each of the overrides is PROTOCOL.attribute=value. */
    static JChannel open(String file, Iterable<String> overrides) throws Exception {
        ProtocolStackConfigurator stack = ConfiguratorFactory.getStackConfigurator(file);
        for (String override : overrides) {
            String[] pair = override.split("=", 2);
            int dot = pair[0].indexOf('.');
            for (ProtocolConfiguration configuration : stack.getProtocolStack()) {
                String name = configuration.getProtocolName();
                if (name.substring(name.lastIndexOf('.') + 1).equals(pair[0].substring(0, dot)))
                    configuration.getProperties().put(pair[0].substring(dot + 1), pair[1]);
            }
        }
        return new JChannel(stack);
    }
}
