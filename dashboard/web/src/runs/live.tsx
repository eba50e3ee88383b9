// Whether the page follows its server, or asks again and again.
import { useConnection } from "../events";

const TITLES = {
  live: "The server tells this page what is new.",
  polling: "The server's stream of events is not to be had: it is asked again and again.",
};

export function LiveMark() {
  const connection = useConnection();
  if (connection !== "live" && connection !== "polling") return null;
  return (
    <span class={`mark ${connection}`} title={TITLES[connection]}>
      {connection}
    </span>
  );
}
