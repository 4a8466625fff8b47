"""Speech servers behind one client: first audio, real-time factor, throughput, stalls."""

from enginewright.evaluation.speech.protocol import (
    SpeechProtocol,
    SpeechServer,
    find_server,
    measure_speech,
)
from enginewright.evaluation.speech.summary import summarise

__all__ = ["SpeechProtocol", "SpeechServer", "find_server", "measure_speech", "summarise"]
