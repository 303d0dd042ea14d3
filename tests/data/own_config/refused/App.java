import java.util.Properties;
public class App {
  Properties p = new Properties();
  { p.put(ProducerConfig.ACKS_CONFIG, "1"); }
}
