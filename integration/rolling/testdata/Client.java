import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's producer and consumer with their defaults. Arguments: bootstrap servers, topic, group, and settings of the
 * consumer as key=value. Each line of standard input is produced; its end ends the program. A line is printed for each
 * record that was acknowledged, failed or was read, and for each error.
 */
public class Client {
    private static synchronized void say(String what, Object value) {
        System.out.println(what + " " + value.toString().replace('\n', ' '));
    }

    public static void main(String[] args) throws Exception {
        KafkaConsumer<String, String> consumer = consumer(args);
        Thread reading = new Thread(() -> read(consumer, args[1]));
        reading.start();
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
             BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line; (line = in.readLine()) != null; ) {
                String value = line;
                producer.send(new ProducerRecord<>(args[1], value), (metadata, error) -> {
                    if (error == null) say("acked", value);
                    else say("failed", value + " " + error);
                });
            }
        }
        consumer.wakeup();
        reading.join();
    }

    private static KafkaConsumer<String, String> consumer(String[] args) {
        Map<String, Object> settings = new java.util.HashMap<>(Map.of(
            "bootstrap.servers", args[0], "group.id", args[2], "auto.offset.reset", "earliest"));
        for (int i = 3; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void read(KafkaConsumer<String, String> consumer, String topic) {
        try (consumer) {
            consumer.subscribe(List.of(topic));
            while (true) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofSeconds(1))) say("read", r.value());
            }
        } catch (WakeupException end) {
            // as main wishes
        } catch (Throwable error) {
            say("error", error);
        }
    }
}
