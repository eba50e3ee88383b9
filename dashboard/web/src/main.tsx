import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, get } from "./api";
import { Compare } from "./pages/compare";
import { Group } from "./pages/group";
import { Login } from "./pages/login";
import { Play } from "./pages/play";
import { Rollout } from "./pages/rollout";
import { Rollouts } from "./pages/rollouts";
import { Run } from "./pages/run";
import { Runs } from "./pages/runs";
import { Store } from "./pages/store";
import { report } from "./report";
import "./style.css";
import "./rollout.css";
import "./server.css";

/** The page that an address names: its path and its query, behind the #. */
function Page({ address }: { address: string }) {
  const [path = "", query = ""] = address.replace(/^#\/?/, "").split("?");
  const [kind, ...rest] = path.split("/");
  const id = decodeURIComponent(rest.join("/"));
  if (kind === "" || (kind === "runs" && !id)) return <Runs />;
  if (kind === "runs") return <Run id={id} key={id} />;
  if (kind === "rollouts" && !id) return <Rollouts query={new URLSearchParams(query)} />;
  if (kind === "rollouts") return <Rollout id={id} key={id} query={new URLSearchParams(query)} />;
  if (kind === "groups") return <Group query={new URLSearchParams(query)} />;
  if (kind === "compare") return <Compare query={new URLSearchParams(query)} />;
  if (kind === "play") return <Play query={new URLSearchParams(query)} />;
  if (kind === "store") return <Store query={new URLSearchParams(query)} />;
  return (
    <main>
      <h1>There is no such page</h1>
      <p>
        <a href="#/">Runs</a> and <a href="#/rollouts">rollouts</a> are here.
      </p>
    </main>
  );
}

function App() {
  const [address, setAddress] = useState(location.hash);
  const [isIn, setIn] = useState<boolean | null>(report && true);
  useEffect(() => {
    const changed = () => setAddress(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    if (report) return;
    get("/ui/data/rollouts?limit=1")
      .then(() => setIn(true))
      .catch((error) => setIn(!(error instanceof Failure && error.status === 401)));
  }, [address]);
  const link = (to: string, name: string) => (
    <a href={to} aria-current={address.startsWith(to) ? "page" : undefined}>
      {name}
    </a>
  );
  return (
    <>
      <header>
        <a class="name" href="#/runs">
          Fulgurite
        </a>
        <nav aria-label="Pages">
          {link("#/runs", "Runs")}
          {!report && (
            <>
              {link("#/rollouts", "Rollouts")}
              {link("#/store", "Store")}
              {link("#/play", "Play")}
            </>
          )}
        </nav>
      </header>
      {isIn === false ? <Login entered={() => setIn(true)} /> : isIn && <Page address={address} />}
    </>
  );
}

const place = document.getElementById("page");
if (place) render(<App />, place);
