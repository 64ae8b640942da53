import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Kroxylicious with one config file, run from its source: `java -cp 'jars/*' Launcher.java config.yaml`. */
public class Launcher {
    public static void main(String[] arguments) throws Exception {
        var parser = new ConfigParser();
        var config = parser.parseConfiguration(Files.readString(Path.of(arguments[0])));
        try (var proxy = new KafkaProxy(parser, config, Features.defaultFeatures())) {
            proxy.startup().block();
        }
    }
}
