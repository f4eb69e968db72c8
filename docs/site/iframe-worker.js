// Search runs in a worker, and browsers start no worker for a page that was opened as a file. There, this one stands in
// for it: the script runs in an empty frame of the page. Zensical would fetch such a stand-in from another server.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      this.frame = frame;
      this.started = new Promise((resolve, reject) => {
        const script = frame.contentDocument.createElement("script");
        Object.assign(script, { src: new URL(address, location).href, onload: resolve, onerror: reject });
        frame.contentDocument.head.append(script);
      });
      this.started.catch((error) => this.onerror?.(error));
    }
    postMessage(data) {
      this.started.then(() => this.frame.contentWindow.onmessage({ data: structuredClone(data) }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
