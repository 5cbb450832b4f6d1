import java.nio.file.Files;
import java.nio.file.Path;

/** Kafka's own command for ACLs, once for each line of a file, in one process. */
public class Acls {
    public static void main(String[] arguments) throws Exception {
        org.apache.kafka.common.utils.Exit.setExitProcedure((code, message) -> {
            if (code != 0) Runtime.getRuntime().halt(code);
        });
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            org.apache.kafka.tools.AclCommand.main(line.trim().split(" +"));
        }
    }
}
