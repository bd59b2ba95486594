"""Media is seeded, and what a consumer keeps is what its producer sent, bit for bit."""

import io
import wave

import pytest
from simnet import Weather
from streamslab import BROKER, Lab, build

from lab.protocols.streams import media
from lab.protocols.streams.core import Settings
from lab.protocols.streams.recorder import Recorder
from lab.protocols.streams.wire import Content, Header


def test_media_is_seeded_and_differs() -> None:
    for make in (media.frame, media.chunk):
        assert make("1/1/1", 3) == make("1/1/1", 3)
        assert len({make("1/1/1", 3), make("1/1/1", 4), make("1/1/2", 3), make("2/1/1", 3)}) == 4


def test_frames_are_ppm_pictures() -> None:
    data = media.frame("s", 5)
    head, size, depth, pixels = data.split(b"\n", 3)
    assert (head, size, depth) == (b"P6", b"64 48", b"255")
    assert len(pixels) == 64 * 48 * 3
    assert len(set(pixels)) > 20


def test_chunks_make_a_wav_that_plays() -> None:
    recorder, held = Recorder(), bytearray()
    for number in range(20):
        for event in recorder.write(Header(1, 1, Content.AUDIO), media.chunk("s", number)):
            assert event.offset is not None
            held[event.offset : event.offset + len(event.data)] = event.data
        with wave.open(io.BytesIO(bytes(held))) as sound:  # after every chunk
            assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 1, 8000)
            assert sound.getnframes() == (number + 1) * media.CHUNK
            samples = sound.readframes(sound.getnframes())
    assert samples == b"".join(media.chunk("s", number) for number in range(20))
    assert max(samples) - min(samples) > 100


def play(settings: Settings, content: Content | None, mutant: str | None = None, weather: Weather | None = None) -> Lab:
    """Producers with streams by themselves, two rounds or more; a consumer takes every stream of each."""
    lab = build(settings, producers=2, seed=5, mutant=mutant, mutant_role="consumer", weather=weather)
    for producer in lab.producers.values():
        producer.begin_streams(content, 0.0)
    lab.net.run(limit_s=0.5)
    for producer in (1, 2):
        lab.consumers["10.0.2.3"].subscribe(Header(producer, 0x99, Content.ALL), lab.net.now)
    lab.net.run(limit_s=25)
    for producer in lab.producers.values():
        producer._showing = False
    lab.net.run(limit_s=60)
    return lab


@pytest.mark.parametrize("split", ["ip", "protocol"])
def test_a_consumers_files_are_the_producers_bit_for_bit(split: str) -> None:
    lab = play(Settings(split), None)
    made = lab.files("10.0.1.3") | lab.files("10.0.1.4")
    kept = lab.files("10.0.2.3")
    assert kept == made
    assert {name.rpartition(".")[2] for name in kept} == {"ppm", "wav", "txt"}
    assert any(name.startswith("producer2-") for name in kept)
    starts = [text for text in lab.net.said("10.0.1.3") if "was announced" in text]
    ends = [text for text in lab.net.said("10.0.1.3") if text.endswith("has ended.")]
    assert len(starts) == len(ends) > 1
    assert not lab.broker.streams


def test_a_round_has_as_many_streams_as_were_drawn_each_as_long_as_its_shortest_component() -> None:
    lab = play(Settings(), Content.ALL)
    files = lab.files("10.0.1.3")
    for name in [name for name in files if name.endswith(".wav")]:
        stem = name.removesuffix(".wav")
        chunks = (len(files[name]) - media.WAV_HEAD) // media.CHUNK
        assert chunks == files[f"{stem}.txt"].count(b"\n") == sum(one.startswith(f"{stem}-frame") for one in files)
        assert 20 <= chunks <= 100
        assert files[f"{stem}.txt"].startswith(b"Line 1 of stream ")


def test_split_none_refuses_what_does_not_fit() -> None:
    lab = play(Settings("none"), Content.VIDEO)
    assert not [name for name in lab.files("10.0.2.3") if name.endswith(".ppm")]
    assert any("at most 1467 bytes" in text for text in lab.net.said("10.0.1.3"))
    assert lab.producers["p1"].counters["refused"] > 20
    assert max(len(d.data) for _, _, d in lab.net.wire) < 1472


@pytest.mark.parametrize(("split", "longest"), [("ip", 5 + 13 + 64 * 48 * 3), ("protocol", 1472)])
def test_what_split_makes_of_a_frame(split: str, longest: int) -> None:
    lab = play(Settings(split), Content.VIDEO)
    assert max(len(d.data) for _, host, d in lab.net.wire if host == BROKER[0]) == longest


def test_with_parts_a_picture_is_whole_or_not_there() -> None:
    lab = play(Settings("protocol"), Content.VIDEO, weather=Weather(loss=0.02, duplicate=0.05, jitter_s=0.02))
    made, kept = lab.files("10.0.1.3") | lab.files("10.0.1.4"), lab.files("10.0.2.3")
    assert 0 < len(kept) < len(made)
    assert all(made[name] == data for name, data in kept.items())
    assert min(lab.net.dropped, lab.net.duplicated, lab.net.reordered) > 10


def test_slow_file_writing_loses_sound() -> None:
    made, kept = (play(Settings(), Content.AUDIO, "slow-files").files(host) for host in ("10.0.1.3", "10.0.2.3"))
    assert any(len(kept.get(name, b"")) < len(data) for name, data in made.items())


@pytest.mark.parametrize(("content", "kinds"), [("audio", {"wav", "txt"}), ("video", {"ppm", "txt"}), ("all", 3)])
def test_a_workload_has_media_beside_its_messages(content: str, kinds: object) -> None:
    lab = build(Settings("protocol", content=content))
    lab.begin(2)
    lab.publish(30, 2)
    assert len(lab.shown("10.0.2.3")) == 30
    kept = lab.files("10.0.2.3")
    assert kept == lab.files("10.0.1.3")
    found = {name.rpartition(".")[2] for name in kept}
    assert found == kinds or len(found) == kinds
