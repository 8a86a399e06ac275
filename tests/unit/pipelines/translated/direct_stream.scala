import kafka.serializer.StringDecoder
import org.apache.spark.streaming.kafka.KafkaUtils

object Orders {
  def main(args: Array[String]) {
    val conf = new SparkConf().setAppName("orders").set("spark.streaming.kafka.maxRatePerPartition", "10000")
      .set("spark.executor.memory", "4g")
    val ssc = new StreamingContext(conf, Seconds(60))
    // a topic for each kind
    val topics = Set("orders", "refunds")
    val kafkaParams = Map[String, String](
      "metadata.broker.list" -> "broker1:9092,broker2:9092",
      "group.id" -> "orders-job",
      "auto.offset.reset" -> "smallest",
      "fetch.message.max.bytes" -> "8388608",
      "socket.timeout.ms" -> "60000",
      "zookeeper.connect" -> "zk1:2181")
    val messages = KafkaUtils.createDirectStream[String, String, StringDecoder, StringDecoder](
      ssc, kafkaParams, topics)
  }
}
