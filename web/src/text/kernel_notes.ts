// Chinese for the remarks of kernels (`Kernel.note`), which the cost models write in English.

import { currentLanguage } from "../core/language";

const NOTES: readonly (readonly [RegExp, string])[] = [
  [/^K split (\d+) ways$/, "K 方向切成 $1 份"],
  [/^keys split (\d+) ways$/, "键切成 $1 份"],
  [/^adds up the slices of K$/, "把 K 的各片相加"],
  [/^partial sums$/, "部分和"],
  [/^lets blocks draw the next tile$/, "让线程块领取下一个分块"],
  [/^head dimension padded$/, "注意力头维度经过补齐"],
  [/^one block for each of ([\d,]+) channels$/, "$1 个通道，每个通道一个线程块"],
  [/^one block for the whole batch$/, "整个批次只有一个线程块"],
  [/^([\d,]+) blocks share each output$/, "每个输出由 $1 个线程块共同完成"],
  [/^semaphores of blocks that share an output$/, "共享同一输出的线程块所用的信号量"],
  [/^([\d,]+) blocks walk all ([\d,]+) rows$/, "$1 个线程块走完全部 $2 行"],
  [/^([\d,]+) chunks of up to ([\d,]+) elements$/, "$1 块，每块最多 $2 个元素"],
  [/^rows are read ([\d.]+) times$/, "每行读取 $1 次"],
  [/^one pass for each byte of the key$/, "键的每个字节一遍"],
  [/^index, then data: two loads in a row$/, "先取下标，再取数据：两次相继的加载"],
  [/^a block for each segment of equal indices$/, "相同下标的每一段一个线程块"],
  [/^every block walks all indices$/, "每个线程块都走完全部下标"],
  [/^one writer for each index$/, "每个下标只有一个写入者"],
  [/^strided or unaligned inputs: element by element$/, "输入不连续或未对齐：逐个元素处理"],
  [/^strided or broadcast over (\d+) dimensions: an offset for each element$/, "在 $1 个维度上跨步或广播：每个元素都要算偏移"],
  [/^types differ: one element at a time$/, "类型不同：一次一个元素"],
  [/^two halves of one input$/, "同一输入的两半"],
  [/^into a part$/, "写入一部分"],
  [/^limited by the running-variance arithmetic of each row$/, "受每行的滑动方差计算限制"],
  [/^takes far longer than its model says$/, "远比模型预期的慢"],
  [/^(\d+) operators in one kernel$/, "一个内核包含 $1 个算子"],
  [/^second kernel of a split reduction$/, "分段归约的第二个内核"],
  [/^(\d+) groups taken as equal$/, "$1 个组按相等处理"],
  [/^pageable host memory is staged by the CPU$/, "可分页的主机内存由 CPU 中转"],
  [/^(\w+) to (\w+)$/, "$1 转为 $2"],
];

/** A kernel's remark in the reader's language; one that is not known here stays as it is. */
export function kernelNote(note: string): string {
  if (currentLanguage() !== "zh") return note;
  const found = NOTES.find(([pattern]) => pattern.test(note));
  return found ? note.replace(found[0], found[1]) : note;
}
