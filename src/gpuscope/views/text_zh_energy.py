"""Chinese for the texts of `gpuscope watch --energy` and of the exporter's files."""

from __future__ import annotations

ENERGY_CHINESE: dict[str, str] = {
    "There is nothing here that tells its energy.": "这台机器上没有可读取能耗的设备。",
    "{time}, exit code {code}": "{time}，退出码 {code}",
    "energy": "能耗",
    "average": "平均",
    "peak": "峰值",
    "by": "依据",
    "together": "合计",
    "host CPUs": "主机 CPU",
    "counter": "计数器",
    "integral": "功率积分",
    "It was not read.": "未读取。",
    "It tells neither energy nor power.": "设备不提供能耗或功率读数。",
    "A slice of a device: power and energy belong to the whole device.": (
        "这是设备的一个切片（MIG）：功率和能耗只属于整个设备。"
    ),
    "It ran for less than 1 s: too short for the device's readings.": (
        "运行不足 1 秒，设备读数来不及更新。"
    ),
    "{grams} g of CO2 equivalent": "{grams} 克二氧化碳当量",
    "${price}/kWh, as given": "{price} 美元/千瓦时，用户指定",
    "cost": "费用",
    "All that these devices drew meanwhile, idle power and others' work included; without power "
    "supplies, fans and cooling.": (
        "这是设备在此期间的全部能耗，含空闲功耗和他人的任务；不含电源损耗、风扇和制冷。"
    ),
    "The host's processors do not tell their energy here.": "此处读不到主机处理器的能耗。",
    "Cost: give the price of a kilowatt-hour, --price 0.12": "费用：请给出电价，如 --price 0.12",
}
