package tidegate;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Gives each record the timestamp in its header of provenance: Spark's sink has no column for it. */
public final class SourceTimestamps implements ProducerInterceptor<byte[], byte[]> {
    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
        byte[] said = record.headers().lastHeader("tidegate").value();
        String text = new String(said, StandardCharsets.US_ASCII);
        long timestamp = Long.parseLong(text.substring(text.lastIndexOf(':') + 1));
        return new ProducerRecord<>(
            record.topic(), record.partition(), timestamp, record.key(), record.value(),
            record.headers());
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> settings) {}
}
