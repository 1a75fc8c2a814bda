"""Cache files: BuddyReplicationConfig as JBoss Cache wrote it, defaults, and every kind of mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    Fqn,
    load_cache_settings,
    open_tree_cache,
    parse_cache_settings,
    shipped_caches,
)
from jgroups_py.errors import ConfigError


def xml(inside: str) -> CacheSettings:
    return parse_cache_settings(inside, language="xml", source="c.xml")


def buddies(children: str) -> BuddyReplicationConfig:
    text = f"""<server><mbean code="org.jboss.cache.TreeCache" name="jboss.cache:service=TreeCache">
      <depends>jboss:service=Naming</depends>
      <attribute name="CacheMode">REPL_SYNC</attribute>
      <attribute name="BuddyReplicationConfig"><config>{children}</config></attribute>
    </mbean></server>"""
    config = xml(text).buddies
    assert config is not None
    return config


ON = "<buddyReplicationEnabled>true</buddyReplicationEnabled>"


@pytest.mark.seed("B17")
def test_enabling_is_the_only_mandatory_child() -> None:
    assert buddies(ON) == BuddyReplicationConfig(buddy_replication_enabled=True)
    with pytest.raises(ConfigError, match=r"needs buddyReplicationEnabled \(true or false\)"):
        buddies("<buddyLocatorProperties>numBuddies = 3</buddyLocatorProperties>")


@pytest.mark.seed("B17")
@pytest.mark.parametrize(
    "element",
    [
        f'<attribute name="BuddyReplicationConfig"><config>{ON}</config></attribute>',
        f'<attribute name="BuddyReplicationConfig">{ON}</attribute>',
        f"<BuddyReplicationConfig>{ON}</BuddyReplicationConfig>",
        '<BuddyReplicationConfig buddyReplicationEnabled="true"/>',
    ],
)
def test_the_element_may_be_written_in_each_of_these_ways(element: str) -> None:
    settings = xml(f"<cache><CacheMode>REPL_SYNC</CacheMode>{element}</cache>")
    assert settings.buddies == BuddyReplicationConfig(buddy_replication_enabled=True)


@pytest.mark.parametrize(
    "element",
    [
        "",
        "<BuddyReplicationConfig/>",
        '<attribute name="BuddyReplicationConfig"><config></config></attribute>',
        "<BuddyReplicationConfig><buddyReplicationEnabled>false</buddyReplicationEnabled>"
        "</BuddyReplicationConfig>",
    ],
)
def test_absent_empty_or_disabled_there_are_no_buddies(element: str) -> None:
    assert xml(f"<cache><CacheMode>REPL_SYNC</CacheMode>{element}</cache>").buddies is None


@pytest.mark.parametrize(
    "element", ["x<config>{}</config>", "<config>x</config>", "<config>{}x</config>", "x{}"]
)
def test_text_between_elements_is_refused(element: str) -> None:
    with pytest.raises(ConfigError, match=r'text "x" between the elements'):
        xml(
            "<cache><CacheMode>REPL_SYNC</CacheMode><BuddyReplicationConfig>"
            f"{element.format(ON)}</BuddyReplicationConfig></cache>"
        )


@pytest.mark.seed("B18")
def test_the_locator_is_next_in_line_unless_another_is_named() -> None:
    assert buddies(ON).buddy_locator_class == "NextMemberBuddyLocator"
    java = "org.jboss.cache.buddyreplication.NextMemberBuddyLocator"
    for name in ("NextMemberBuddyLocator", java):
        config = buddies(f"{ON}<buddyLocatorClass> {name} </buddyLocatorClass>")
        assert config.buddy_locator_class == "NextMemberBuddyLocator"
    mine = "own_locator.FirstMember"
    config = buddies(f"{ON}<buddyLocatorClass>{mine}</buddyLocatorClass>")
    assert config.buddy_locator_class == mine


@pytest.mark.seed("B19")
@pytest.mark.parametrize(
    "text",
    [
        "numBuddies = 3",
        "numBuddies=3",
        "\n\n      numBuddies   =\t3   \n   # so many\n  ignoreColocatedBuddies:false\n! and\n",
    ],
)
def test_locator_properties_are_text_with_any_white_space(text: str) -> None:
    config = buddies(f"{ON}<buddyLocatorProperties>{text}</buddyLocatorProperties>")
    assert config.num_buddies == 3
    assert config.ignore_colocated_buddies is ("false" not in text)


def test_without_a_pool_name_there_is_none() -> None:
    assert buddies(ON).buddy_pool_name is None
    assert buddies(f"{ON}<buddyPoolName> </buddyPoolName>").buddy_pool_name is None
    assert buddies(f"{ON}<buddyPoolName>left</buddyPoolName>").buddy_pool_name == "left"


@pytest.mark.seed("B21")
def test_the_communication_timeout_is_ten_seconds_unless_set() -> None:
    assert buddies(ON).buddy_communication_timeout == 10.0
    for text, seconds in (("2000", 2.0), ("3s", 3.0)):
        child = f"<buddyCommunicationTimeout>{text}</buddyCommunicationTimeout>"
        assert buddies(ON + child).buddy_communication_timeout == seconds


def test_gravitation_is_off_by_default_and_its_two_options_are_on() -> None:
    config = buddies(ON)
    assert config.auto_data_gravitation is False
    assert config.data_gravitation_remove_on_find is True
    assert config.data_gravitation_search_backup_trees is True
    config = buddies(
        f"{ON}<autoDataGravitation>true</autoDataGravitation>"
        "<dataGravitationRemoveOnFind>false</dataGravitationRemoveOnFind>"
        "<dataGravitationSearchBackupTrees>FALSE</dataGravitationSearchBackupTrees>"
    )
    assert config.auto_data_gravitation is True
    assert not config.data_gravitation_remove_on_find
    assert not config.data_gravitation_search_backup_trees


def test_one_buddy_on_another_host_is_the_default() -> None:
    assert buddies(ON).num_buddies == 1 and buddies(ON).ignore_colocated_buddies is True


def test_xml_and_yaml_say_the_same() -> None:
    one, other = load_cache_settings("buddy.xml"), load_cache_settings("buddy.yaml")
    assert one.buddies == other.buddies and one.buddies is not None
    assert (one.cache_mode, one.stack, one.cluster_name) == ("REPL_SYNC", "udp.xml", "cache")
    assert (other.cache_mode, other.stack, other.cluster_name) == ("REPL_SYNC", "udp.xml", "cache")
    given = {"cache.buddies": "2", "cache.cluster": "shop"}
    settings = load_cache_settings("buddy.yaml", properties=given)
    assert settings.buddies is not None and settings.buddies.num_buddies == 2
    assert settings.cluster_name == "shop"


@pytest.mark.parametrize("name", shipped_caches())
def test_a_shipped_file_opens_with_a_comment_and_can_be_read(name: str) -> None:
    text = (Path(__file__).parents[2] / "stacks" / "caches" / name).read_text()
    assert text.startswith(("<!--\n  For whom", "# buddy.xml in YAML"))
    assert load_cache_settings(name, environment={}).source == name


def test_a_jboss_file_with_all_its_settings_is_read() -> None:
    settings = xml(
        """<server><mbean code="org.jboss.cache.TreeCache" name="jboss.cache:service=TreeCache">
        <depends>jboss:service=Naming</depends>
        <attribute name="TransactionManagerLookupClass">x.DummyLookup</attribute>
        <attribute name="IsolationLevel">REPEATABLE_READ</attribute>
        <attribute name="CacheMode">REPL_ASYNC</attribute>
        <attribute name="ClusterName">TreeCache-Cluster</attribute>
        <attribute name="ClusterConfig">tcp.xml</attribute>
        <attribute name="SyncReplTimeout">20000</attribute>
        <attribute name="LockAcquisitionTimeout">15000</attribute>
        <attribute name="EvictionPolicyClass">org.jboss.cache.eviction.LRUPolicy</attribute>
        <attribute name="EvictionPolicyConfig"><config>
            <attribute name="wakeUpIntervalSeconds">3</attribute>
            <region name="/_default_">
                <attribute name="maxNodes">5000</attribute>
                <attribute name="timeToLiveSeconds">1000</attribute>
            </region>
            <region name="/org/data"><attribute name="maxAgeSeconds">1.5</attribute></region>
        </config></attribute>
        <attribute name="CacheLoaderConfiguration"><config>
            <passivation>true</passivation><preload>/, /a</preload><shared>false</shared>
            <cacheloader><class>SqliteStore</class>
                <properties>location = c.db
                    durable=false</properties>
                <async>false</async></cacheloader>
        </config></attribute>
        </mbean></server>"""
    )
    assert (settings.cache_mode, settings.cluster_name) == ("REPL_ASYNC", "TreeCache-Cluster")
    assert (settings.stack, settings.sync_repl_timeout) == ("tcp.xml", 20.0)
    assert settings.lock_acquisition_timeout == 15.0
    assert sorted(settings.without_effect) == [
        "EvictionPolicyClass",
        "IsolationLevel",
        "TransactionManagerLookupClass",
    ]
    eviction = settings.eviction_policy_config
    assert eviction.wake_up_interval == 3.0
    one, other = eviction.regions
    assert (one.root, one.max_nodes, one.time_to_live) == (Fqn(), 5000, 1000.0)
    assert (other.root, other.max_age) == (("org", "data"), 1.5)
    loader = settings.cache_loader_configuration
    assert loader is not None and loader.passivation
    assert loader.preload_paths == ((), ("a",))
    assert loader.cacheloader.properties == {"location": "c.db", "durable": "false"}


def within(name: str, inside: str) -> str:
    return f"<cache>\n<CacheMode>REPL_SYNC</CacheMode>\n<{name}>{inside}</{name}></cache>"


def buddy(inside: str) -> str:
    return within("BuddyReplicationConfig", ON + "\n" + inside)


LOCATOR = "buddyLocatorClass"
PROPERTIES = "buddyLocatorProperties"
MISTAKES = [
    ("", "c.xml:1:1: not well-formed XML: no element found"),
    ("<config/>", "c.xml:1:1: not a cache file: its root is <config>, not <cache>"),
    ("<server/>", "c.xml:1:1: a server has one mbean, the cache; this one has 0"),
    ("<cache>\n hello</cache>", 'c.xml:2:2: cache: "hello" is a text; expected settings'),
    ("<cache><attribute>1</attribute></cache>", 'c.xml:1:8: an <attribute> needs name="..."'),
    ("<!DOCTYPE cache><cache/>", "a DOCTYPE is not accepted"),
    (
        "<cache><CacheMode>\n  REPL</CacheMode></cache>",
        'c.xml:2:3: cache.CacheMode: not known: "REPL" (one of LOCAL, REPL_SYNC, REPL_ASYNC)',
    ),
    (
        "<cache><CacheMod>LOCAL</CacheMod></cache>",
        'c.xml:1:18: cache.CacheMod: is not known, value "LOCAL" (did you mean "cacheMode"?)',
    ),
    (
        "<cache><CacheMode>LOCAL</CacheMode>\n<cacheMode>LOCAL</cacheMode></cache>",
        "c.xml:2:12: cache.cacheMode: is given twice (first in line 1)",
    ),
    (
        "<cache><MaxValueSize>0</MaxValueSize></cache>",
        "c.xml:1:22: cache.MaxValueSize: maxValueSize must be >= 1, got 0",
    ),
    (
        "<cache><SyncReplTimeout>${x</SyncReplTimeout></cache>",
        'SyncReplTimeout: "${" without its "}"',
    ),
    (
        "<cache><ClusterConfig><UDP/></ClusterConfig></cache>",
        "ClusterConfig: is the name of a stack file; a stack inside a cache file is not read",
    ),
    (
        f"<cache><BuddyReplicationConfig>{ON}</BuddyReplicationConfig></cache>",
        "buddy replication needs CacheMode REPL_SYNC or REPL_ASYNC, not LOCAL",
    ),
    (
        within("BuddyReplicationConfig", "true"),
        'c.xml:3:25: BuddyReplicationConfig: needs buddyReplicationEnabled, got the text "true"',
    ),
    (
        within("BuddyReplicationConfig", "<zone>a</zone>"),
        "c.xml:3:1: BuddyReplicationConfig: needs buddyReplicationEnabled (true or false)",
    ),
    (
        within("BuddyReplicationConfig", ON.replace("true", "yes")),
        'BuddyReplicationConfig.buddyReplicationEnabled: not a boolean: "yes" (true or false)',
    ),
    (
        buddy("<buddyPool>x</buddyPool>"),
        'c.xml:4:12: BuddyReplicationConfig.buddyPool: is not known, value "x"'
        ' (did you mean "buddyPoolName"?)',
    ),
    (
        buddy(f"<{PROPERTIES}>numBuddies = 0</{PROPERTIES}>"),
        'c.xml:4:25: BuddyReplicationConfig.buddyLocatorProperties: numBuddies is "0" (a whole'
        " number from 1 to 100",
    ),
    (buddy(f"<{PROPERTIES}>numBuddies = two</{PROPERTIES}>"), 'numBuddies is "two" (a whole'),
    (
        buddy(f"<{PROPERTIES}>ignoreColocatedBuddies = 1</{PROPERTIES}>"),
        'ignoreColocatedBuddies is "1" (true or false)',
    ),
    (
        buddy(f"<{PROPERTIES}>numBuddy = 1</{PROPERTIES}>"),
        "NextMemberBuddyLocator does not know numBuddy (it knows numBuddies and",
    ),
    (
        buddy(f"<{PROPERTIES}>\n\nnumBuddies = 1\n3 buddies</{PROPERTIES}>"),
        'c.xml:7: buddyLocatorProperties: "3 buddies" is not one property (name = value',
    ),
    (
        buddy(f"<{PROPERTIES}>numBuddies = 1 x = 2</{PROPERTIES}>"),
        '"numBuddies = 1 x = 2" is not one property',
    ),
    (
        buddy(f"<{PROPERTIES}>numBuddies=1\nnumBuddies=2</{PROPERTIES}>"),
        "c.xml:5: buddyLocatorProperties: numBuddies is given twice",
    ),
    (
        buddy(f"<{LOCATOR}>NearestBuddy</{LOCATOR}>"),
        'c.xml:4:20: BuddyReplicationConfig.buddyLocatorClass: "NearestBuddy" is not known'
        " (NextMemberBuddyLocator, or the import path",
    ),
    (buddy(f"<{LOCATOR}>no.such.Class</{LOCATOR}>"), "cannot be imported: ModuleNotFoundError"),
    (buddy(f"<{LOCATOR}>decimal.Nothing</{LOCATOR}>"), "is no class of decimal"),
    (buddy(f"<{LOCATOR}>decimal.Decimal</{LOCATOR}>"), '"decimal.Decimal" has no init()'),
    (
        buddy("<buddyCommunicationTimeout>0</buddyCommunicationTimeout>"),
        "BuddyReplicationConfig.buddyCommunicationTimeout: buddyCommunicationTimeout must be > 0"
        " s, got 0",
    ),
    (
        buddy("<unsentRemovalsMax>-1</unsentRemovalsMax>"),
        "BuddyReplicationConfig.unsentRemovalsMax: unsentRemovalsMax must not be negative, got -1",
    ),
    (
        buddy("<tombstoneTime>soon</tombstoneTime>"),
        'BuddyReplicationConfig.tombstoneTime: not a time: "soon"',
    ),
    (
        buddy("<buddyCommunicationTimeout>soon</buddyCommunicationTimeout>"),
        'not a time: "soon" (a time such as 500ms',
    ),
    (buddy("<zone><rack/></zone>"), "BuddyReplicationConfig.zone: expected one value"),
    (
        within("EvictionPolicyConfig", '<region name="/a"/>'),
        "c.xml:3:23: region: needs one of maxNodes, maxBytes, timeToLive, maxAge",
    ),
    (
        within("EvictionPolicyConfig", '<region maxNodes="3"/>'),
        "c.xml:3:23: region: needs name (a text)",
    ),
    (
        within("EvictionPolicyConfig", '<region name="a" maxNodes="3"/>'),
        "c.xml:3:31: region.name: a path begins with /, got 'a'",
    ),
    (
        within("EvictionPolicyConfig", '<region name="/a" maxNodes="-3"/>'),
        "region.maxNodes: maxNodes must be >= 0, got -3",
    ),
    (
        within(
            "EvictionPolicyConfig",
            '<region name="/a" maxNodes="3"/><region name="/a" max-age="3"/>',
        ),
        "region /a is given twice",
    ),
    (
        within("CacheLoaderConfiguration", "<passivation>true</passivation>"),
        "CacheLoaderConfiguration: needs cacheloader (settings)",
    ),
    (
        within("CacheLoaderConfiguration", "<cacheloader><x/></cacheloader>"),
        "cacheloader.x: is not known (cacheloader knows class, properties)",
    ),
    (
        within("CacheLoaderConfiguration", "<cacheloader><class>SqliteStore</class></cacheloader>"),
        "cacheloader: SqliteStore needs location = FILE",
    ),
    (
        within(
            "CacheLoaderConfiguration",
            "<cacheloader><class>org.jboss.cache.loader.FileCacheLoader</class></cacheloader>",
        ),
        "c.xml:3:47: cacheloader.class:",
    ),
    (
        within(
            "CacheLoaderConfiguration",
            "<cacheloader><class>decimal.Decimal</class></cacheloader>",
        ),
        '"decimal.Decimal" is not derived from Store',
    ),
    (
        within(
            "CacheLoaderConfiguration",
            "<cacheloader><properties>location=x\ndurable=no</properties></cacheloader>",
        ),
        'cacheloader.properties: durable is "no" (true or false)',
    ),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_place_and_an_accepted_value(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        xml(text)
    message = str(caught.value)
    assert said in message and message.startswith("c.xml:") and "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "c.yaml: the file is empty"),
        ("- UDP", "c.yaml:1:1: a cache file is cache: and its settings, name: value"),
        ("cache: {CacheMode: &x LOCAL, ClusterName: *x}", "anchors and aliases are not accepted"),
        ("cache:\n  a: 1\n  a: 2", 'c.yaml:3:3: "a" is given twice (first in line 2)'),
        ("cache:\n  [1]: 2", "c.yaml:2:3: a key must be a name"),
        (
            "cache:\n  BuddyReplicationConfig:\n    buddyReplicationEnabled: maybe",
            "c.yaml:3:30: BuddyReplicationConfig.buddyReplicationEnabled: not a boolean",
        ),
        (
            "CacheMode: REPL_SYNC\nBuddyReplicationConfig:\n  buddyReplicationEnabled: true\n"
            "  buddyLocatorProperties: |\n    ignoreColocatedBuddies = true\n    rubbish",
            'c.yaml:6: buddyLocatorProperties: "rubbish" is not one property',
        ),
        ("cache: " + "{a: " * 40 + "1" + "}" * 40, "nested deeper than 32"),
    ],
)
def test_a_mistake_in_yaml_is_named_too(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cache_settings(text, language="yaml", source="c.yaml")
    assert said in str(caught.value)


async def test_a_file_that_is_not_there_names_the_shipped_ones() -> None:
    with pytest.raises(ConfigError, match=r'no cache file "locl.xml".*did you mean "local.xml"'):
        async with open_tree_cache("locl.xml"):
            pass
