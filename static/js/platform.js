// What scripts ask the platform for. Where no answer comes, or one that refuses, that is Away and no mistake of ours.
const Platform = (() => {
  class Away extends Error {}

  // `read` takes what is wanted out of the answer; the network may be lost in the middle of it, too.
  async function get(address, read) {
    let answer;
    let bytes;
    try {
      answer = await fetch(address, { credentials: "same-origin" });
      bytes = await answer.arrayBuffer();
    } catch (error) {
      if (error instanceof TypeError) throw new Away(error.message); // as fetch says that the network is away
      throw error;
    }
    if (!answer.ok) throw new Away(String(answer.status));
    return read(bytes, answer.headers);
  }

  const json = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

  return { Away, get, json };
})();
