import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.Scanner;

/** The order in which PartitionGroup takes from full queues: a line a case, times of each queue, queues apart by |. */
public class Queues {
    record Queue(int number, ArrayDeque<Long> times) {
        long head() {
            return times.peek();
        }
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            PriorityQueue<Queue> nonEmpty = new PriorityQueue<>(Comparator.comparingLong(Queue::head));
            String[] queues = lines.nextLine().split("\\|");
            for (int number = 0; number < queues.length; number++) {
                Queue queue = new Queue(number, new ArrayDeque<>());
                for (String time : queues[number].trim().split(" ")) {
                    queue.times().add(Long.parseLong(time));
                }
                nonEmpty.offer(queue);
            }
            StringBuilder taken = new StringBuilder();
            while (!nonEmpty.isEmpty()) {
                Queue queue = nonEmpty.poll();
                queue.times().poll();
                taken.append(queue.number()).append(' ');
                if (!queue.times().isEmpty()) {
                    nonEmpty.offer(queue);
                }
            }
            System.out.println(taken.toString().trim());
        }
    }
}
