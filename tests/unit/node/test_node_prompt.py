"""The dialogue at a prompt, against a real broker core, without sockets."""

import io
import json

import pytest

from lab.node.driver import Unattended
from lab.node.output import Output
from lab.node.prompt import Prompt
from lab.node.watched import Watched
from lab.protocols.core import Ready
from lab.protocols.rooms.broker import Broker
from lab.protocols.rooms.core import Settings
from lab.protocols.rooms.desk import PublisherDesk, SubscriberDesk
from lab.protocols.rooms.publisher import Publisher
from lab.protocols.rooms.subscriber import Subscriber

BROKER = ("10.0.0.2", 50001)
HOST = "10.0.0.3"
MENU = "Enter CREATE to create a new room or PUBLISH to publish new details: \n"
SUBSCRIBER_MENU = "Enter SUBSCRIBE to subscribe to a room or UNSUBSCRIBE to unsubscribe from a room: \n"


class Terminal:
    """A client at its prompt and a broker, joined by a perfect network."""

    def __init__(self, role: str, broker: Broker | None = None, chatter: bool = False, reply: float = 1.0) -> None:
        settings = Settings("none", chatter=chatter, reply_timeout_s=reply)
        self.screen = io.BytesIO()
        self.output = Output(self.screen)
        self.broker = broker or Broker(settings)
        self.now = 0.0
        self.connected = True
        self.client: Publisher | Subscriber
        self.prompt: Prompt
        if role == "producer":
            self.client = Publisher(settings, BROKER)
            self.prompt = Prompt(self.client, PublisherDesk(self.client, seed=7), self.output)
        else:
            self.client = Subscriber(settings, BROKER)
            self.prompt = Prompt(self.client, SubscriberDesk(self.client), self.output)
        self.prompt.start(self.now)
        self.settle()

    def settle(self) -> None:
        """Carry datagrams until there are none left."""
        moved = True
        while moved:
            moved = False
            for datagram in self.client.datagrams_to_send(self.now):
                moved = True
                if self.connected:
                    self.broker.receive_datagram(datagram.data, (HOST, datagram.local), self.now)
            for datagram in self.broker.datagrams_to_send(self.now):
                moved = True
                if datagram.address[0] == HOST:
                    self.client.receive_datagram(datagram.data, BROKER, self.now, datagram.address[1])
            while (event := self.client.next_event()) is not None:
                moved = True
                self.prompt.event(event, self.now)
        self.output.flush()

    def type(self, *lines: str) -> str:
        """What appears on the screen after these lines."""
        self.screen.seek(0)
        self.screen.truncate()
        for line in lines:
            self.prompt.line(line, self.now)
            self.settle()
        self.settle()
        return self.screen.getvalue().decode()


def test_a_publisher_session() -> None:
    terminal = Terminal("producer")
    assert terminal.screen.getvalue().decode() + "\n" == MENU
    assert terminal.type("publish", "9") == (
        "\nPlease enter the name of the room you want to publish the details for: \n"
        "This Room does not exist.\n" + MENU[:-1]
    )
    assert terminal.client.counters["sent"] == 0  # refused here, nothing was sent
    shown = terminal.type("Create please", "9")
    assert shown == "\nPlease enter a room to create: \n" + MENU[:-1]
    assert 9 in terminal.broker.rooms
    terminal.type("PUBLISH", "9")
    assert terminal.client.counters["sent"] == 1


def test_a_publisher_says_what_it_does_when_a_person_watches() -> None:
    terminal = Terminal("producer", chatter=True)
    terminal.type("CREATE")
    assert terminal.type("4").splitlines()[1:-1] == [
        "Sending packet...",
        "Packet sent",
        "ACK received for Sequence Number 0.",
        "Sent ACK.",
        "Message received: Room 4 was created.",
    ]
    terminal.type("CREATE")
    assert "Message received: This Room already exists.\n" in terminal.type("4")
    terminal.type("PUBLISH")
    assert "Message received: No one has Subscribed to this Room\n" in terminal.type("4")


def test_a_subscriber_session() -> None:
    broker = Broker(Settings("none"))
    terminal = Terminal("consumer", broker, chatter=True)
    assert "Message received: This Room does not exist.\n" in terminal.type("subscribe", "9")
    assert "Message received: You are not subscribed to the room 1\n" in terminal.type("UNSUBSCRIBE", "1")
    assert "Message received: A new subscriber subscribed to 1.\n" in terminal.type("Subscribe", "1")
    publisher = Terminal("producer", broker)
    publisher.prompt.line("PUBLISH", 0.0)
    publisher.prompt.line("1", 0.0)
    for datagram in publisher.client.datagrams_to_send(0.0):
        broker.receive_datagram(datagram.data, ("10.0.0.9", datagram.local), 0.0)
    shown = terminal.type()  # nothing typed: it receives while it waits for a person
    assert "\nNew publication: The Temp is " in shown  # on a line of its own, though a prompt was open
    assert shown.endswith(SUBSCRIBER_MENU[:-1])  # and asks again
    assert "Message received: A subscriber unsubscribed from 1.\n" in terminal.type("unsubscribe", "1")
    assert broker.rooms[1] == {}
    assert terminal.type("subscribe", "x").splitlines()[2] == "This Room does not exist."
    assert terminal.type("unsubscribe", "x").splitlines()[2] == "You are not subscribed to the room x"


@pytest.mark.parametrize("role", ["producer", "consumer"])
@pytest.mark.parametrize("text", ["", "   ", "nonsense"])
def test_what_is_no_command(role: str, text: str) -> None:
    terminal = Terminal(role)
    assert terminal.type(text).splitlines()[1] == "Invalid input."


def test_an_empty_room_is_asked_for_again() -> None:
    terminal = Terminal("producer")
    assert terminal.type("create", "").endswith("Invalid input.\nPlease enter a room to create: ")
    assert terminal.type("ten").splitlines()[1] == "Invalid input."


def test_lines_wait_for_the_answer_before_them_and_end_of_input_for_the_last() -> None:
    terminal = Terminal("producer")
    terminal.connected = False
    terminal.type("CREATE", "4", "CREATE", "5")
    terminal.prompt.end_of_input(terminal.now)
    assert not terminal.prompt.ended
    for _ in range(2):
        timer = terminal.client.get_timer()
        assert timer is not None
        terminal.now = timer
        terminal.client.handle_timer(terminal.now)
        assert not terminal.prompt.ended
        terminal.settle()
    assert terminal.prompt.ended
    assert terminal.screen.getvalue().decode().count("No answer.\n") == 2
    assert terminal.now == pytest.approx(2.0)


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_quit_and_end_of_input_end(role: str) -> None:
    terminal = Terminal(role)
    terminal.type("quit")
    assert terminal.prompt.ended
    other = Terminal(role)
    other.prompt.end_of_input(0.0)
    assert other.prompt.ended


def test_readings_come_from_the_seed() -> None:
    texts = []
    for _ in range(2):
        terminal = Terminal("producer")
        terminal.prompt.line("publish", 0.0)
        terminal.prompt.line("2", 0.0)
        texts.append(terminal.client.datagrams_to_send(0.0)[0].data[6:].rstrip(b"\0").decode())
    assert texts[0] == texts[1]
    assert texts[0].startswith("The Temp is ")
    assert texts[0].endswith(" degree ")


def test_a_watched_prompt_tells_the_lab_when_it_is_ready_and_what_it_counted() -> None:
    settings, screen = Settings("none", chatter=False, reply_timeout_s=1.0), io.BytesIO()
    core, output = Publisher(settings, BROKER), Output(screen)
    watched = Watched(Prompt(core, PublisherDesk(core, seed=7), output), core, output)
    watched.start(0.0)
    output.flush()
    assert screen.getvalue().decode() == '@lab {"event": "ready", "reads_input": true}\n' + MENU.rstrip("\n")
    watched.line("QUIT", 0.0)
    assert watched.ended
    watched.finish()
    output.flush()
    last = screen.getvalue().decode().splitlines()[-1]
    assert json.loads(last.removeprefix("@lab ")) == {"event": "counters", **core.counters}


def test_a_watched_broker_takes_no_input_and_is_ready_when_its_core_says_so() -> None:
    screen = io.BytesIO()
    core, output = Broker(Settings("none", chatter=False, reply_timeout_s=1.0)), Output(screen)
    core.starts_ready = False
    watched = Watched(Unattended(output), core, output)
    watched.start(0.0)
    output.flush()
    assert screen.getvalue() == b""
    watched.event(Ready(), 0.0)
    output.flush()
    assert screen.getvalue() == b'@lab {"event": "ready", "reads_input": false}\n'
