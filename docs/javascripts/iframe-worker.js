/* Search without a server: browsers start no worker from file://, so it runs in a hidden frame there.
   The worker of the theme looks for a class of this name to find its own address. */
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    const inside = frame.contentWindow
    this.loaded = new Promise((resolve) => {
      inside.startedByPage = resolve
    })
    inside.answerPage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
    inside.document.write(
      "<script>postMessage = (data) => answerPage(data)</script>" +
        `<script src="${url}"></script><script>startedByPage()</script>`,
    )
    inside.document.close()
    this.inside = inside
  }
  postMessage(data) {
    this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker
