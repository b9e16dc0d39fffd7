"""The command's own words in the language of the shell; what the platform says comes in that language already.

A catalogue of gettext's would have to be compiled where the package is built, for some eighty short texts.
"""

from jobs.client.command.language import language

CHINESE = {
    # heads of tables
    "ID": "编号",
    "NAME": "名称",
    "STATE": "状态",
    "CLASS": "类型",
    "CARDS": "卡数",
    "TYPE": "卡型",
    "BUSINESS": "业务",
    "USER": "用户",
    "AGE": "提交至今",
    "REASON": "原因",
    "REGION": "地域",
    "FREE": "空闲",
    "MOST ON ONE HOST": "单台最多",
    "USED": "已用",
    "QUOTA": "额度",
    "ELASTIC": "弹性已用",
    "ELASTIC CAP": "弹性上限",
    "HOST": "母机",
    "IN USE": "使用中",
    "NOT OK": "异常",
    "SEEN": "最近上报",
    "REMARK": "备注",
    # names of facts
    "task": "任务",
    "state": "状态",
    "why": "原因",
    "place in line": "排队位置",
    "starts about": "预计开始",
    "estimate": "预计依据",
    "class": "类型",
    "cards": "卡数",
    "region": "地域",
    "business": "业务",
    "user": "用户",
    "submitted": "提交时间",
    "ended": "结束时间",
    "evictions": "被抢占次数",
    "copy of": "复制自",
    "page": "页面",
    "attempt": "第几次运行",
    "cards given": "分到卡",
    "all ran": "全部启动",
    "outcome": "结果",
    "last attempt": "最近一次运行",
    "lost": "丢失的工作",
    "advice": "建议",
    "evicted for": "让给",
    "because": "规则",
    "rank %(rank)s": "成员 %(rank)s",
    "commit": "提交版本",
    "where": "位置",
    "evicts": "将抢占",
    "document": "文档",
    "would start with": "改为以下内容即可开始",
    "evicts tasks: %(tasks)d, loses %(hours).1f card-hours": "抢占任务 %(tasks)d 个，损失 %(hours).1f 卡时",
    # what stands in them
    "all": "全部",
    "%(value)s of %(of)s": "%(value)s / %(of)s",
    "%(cards)s (over by %(over)s)": "%(cards)s（超出 %(over)s）",
    "task %(task)s of %(business)s": "业务 %(business)s 的任务 %(task)s",
    "task %(task)s of %(business)s, loses %(hours).1f card-hours, comes back": (
        "业务 %(business)s 的任务 %(task)s，损失 %(hours).1f 卡时，会再拉起"
    ),
    "task %(task)s of %(business)s, loses %(hours).1f card-hours, does not come back": (
        "业务 %(business)s 的任务 %(task)s，损失 %(hours).1f 卡时，不再拉起"
    ),
    "starts now": "立即开始",
    "starts after evicting": "抢占后开始",
    "queues": "排队",
    "would never start": "永远无法开始",
    "%(number)d d": "%(number)d 天",
    "%(number)d h": "%(number)d 小时",
    "%(number)d min": "%(number)d 分钟",
    "%(number)d s": "%(number)d 秒",
    # sentences
    "API token": "API 令牌",
    "Logged in to %(url)s; you may submit for %(businesses)s. Kept in %(file)s.": (
        "已登录 %(url)s；可为以下业务提交任务：%(businesses)s。已保存在 %(file)s。"
    ),
    "no business yet": "暂无",
    "Forgotten.": "已清除。",
    "Nobody was logged in.": "没有人登录。",
    "The token in TAIJI_TOKEN is not valid (any more) at %(url)s.": "TAIJI_TOKEN 中的令牌在 %(url)s 无效或已失效。",
    "Log in with `taiji login URL`, or set TAIJI_TOKEN.": "请用 `taiji login URL` 登录，或设置 TAIJI_TOKEN。",
    "%(url)s is no address of a platform: one looks like https://taiji.example.org.": (
        "%(url)s 不是平台的地址；地址形如 https://taiji.example.org。"
    ),
    "That is no token: it is one word, as the platform showed it when it was made.": (
        "这不是令牌：令牌是一个词，创建时由平台显示。"
    ),
    "Nobody is logged in: run `taiji login URL` once, or set %(missing)s.": (
        "没有登录：请运行一次 `taiji login URL`，或设置 %(missing)s。"
    ),
    "%(file)s cannot be read (%(fault)s): remove it and log in again.": (
        "无法读取 %(file)s（%(fault)s）：请删除它并重新登录。"
    ),
    "%(file)s is not what `taiji login` writes: remove it and log in again.": (
        "%(file)s 不是 `taiji login` 写的内容：请删除它并重新登录。"
    ),
    "Task %(task)s: %(url)s": "任务 %(task)s：%(url)s",
    "document %(place)s": "第 %(place)s 个文档",
    "Uploading code": "正在上传代码",
    "%(file)s holds no document: it begins with { and names its fields.": (
        "%(file)s 中没有文档：文档以 { 开头，并写出各字段。"
    ),
    "%(file)s holds no list of documents: it begins with [ or with - before each of them.": (
        "%(file)s 中没有文档列表：列表以 [ 开头，或在每个文档前写 -。"
    ),
    "%(file)s is no text in UTF-8: %(fault)s": "%(file)s 不是 UTF-8 文本：%(fault)s",
    "%(file)s is no task document (JSON or YAML object): see docs/client.md (%(fault)s)": (
        "%(file)s 不是任务文档（JSON 或 YAML 对象）：见 docs/client.md（%(fault)s）"
    ),
    "--set: %(field)s is a text, and the shell takes its quotes away: write --set %(quoted)s": (
        "--set：%(field)s 是文本，而 shell 会去掉引号：请写 --set %(quoted)s"
    ),
    "%(folder)s is no folder": "%(folder)s 不是文件夹",
    "--set: %(text)s is no value: %(fault)s": "--set：%(text)s 不是有效的值：%(fault)s",
}


def say(text: str) -> str:
    """Return a text of the command in the language of the shell."""
    return CHINESE.get(text, text) if language() == "zh-hans" else text
