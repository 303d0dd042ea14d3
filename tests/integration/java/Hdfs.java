import java.io.File;
import java.util.Scanner;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS with one data node, on the loopback interface. Prints its address; then copies each local
 * folder that a line of the input names, with its place: FROM TO. Ends with its input.
 */
public final class Hdfs {
    public static void main(String[] arguments) throws Exception {
        var place = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0]));
        try (MiniDFSCluster cluster = place.numDataNodes(1).build(); Scanner orders = new Scanner(System.in)) {
            cluster.waitActive();
            System.out.println(cluster.getURI());
            while (orders.hasNextLine()) {
                String[] order = orders.nextLine().split(" ");
                cluster.getFileSystem().copyFromLocalFile(new Path(order[0]), new Path(order[1]));
                System.out.println("copied");
            }
        }
    }
}
